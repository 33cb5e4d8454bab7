"""From a tensor to the bytes of a message and back: one file per codec.

base   what a coder is
plain  numbers as they are
int8   8-bit integers with a scale for each channel
"""
