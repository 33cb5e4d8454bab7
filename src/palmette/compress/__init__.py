"""Smaller messages and smaller models.

codec      how activations and gradients travel: as they are, or as 8-bit integers
pruning    whole channels removed in the middle of a training
distillation   a smaller network taught by the larger one
networks   the same for networks as consecutive layers
channels   how many channels are left at a fraction of the parameters removed
tracing    which channels can only go together
places     what the optimizer keeps, taken along to what is left
"""
