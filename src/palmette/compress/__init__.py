"""Smaller messages and smaller models.

codec           how activations and gradients travel: as they are, or coded
coders          from a tensor to the bytes of a message and back: one file per codec
delta_coding    outputs as deltas to what both ends keep of the same samples
error_feedback  what a lossy coder has left out is added to the next message
pruning         whole channels removed in the middle of a training
distillation    a smaller network trained on the outputs of the larger one
networks        the same for networks as consecutive layers
channels        how many channels are left at a fraction of the parameters removed
tracing         which channels can only be removed together
kept_indices    which numbers of a tensor are kept, for the optimizer's state
"""
