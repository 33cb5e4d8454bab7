"""From a tensor to the bytes of a message and back: one file per codec.

base         what a coder is
plain        numbers as they are
int8         8-bit integers with a scale for each channel
int4         4-bit integers with a scale for each block of numbers
blocks       consecutive numbers that share a scale
bf16         the upper half of each float
int8_blocks  8-bit integers with a scale for each block of numbers
topk         the largest numbers, with their indices
lowrank      two thin matrices whose product is close
"""
