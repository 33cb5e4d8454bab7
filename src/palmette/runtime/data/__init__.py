"""Which samples each source of a phase trains on.

base          the interface between workers and training data
sources       the data of a run by name, loaded on the workers
shards        which samples a source owns
batches       which samples an iteration uses
samples       the samples that each source gives to an iteration
labels        which labels are sent with a message, and which stay on their node
epoch_length  the number of iterations in an epoch
"""
