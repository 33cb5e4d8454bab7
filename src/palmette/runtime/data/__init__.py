"""Which samples each source of a phase trains on.

base          the interface between workers and training data
sources       the data of a run by name: which samples, how they become inputs, and themselves where they live
shards        which samples a source owns
batches       which samples an iteration uses
samples       which samples each source gives to an iteration
kept_samples  samples of other nodes that a node keeps
left_samples  what earlier runs have left of them on a machine
labels        which labels are sent with a message, and which stay on their node
epoch_length  the number of iterations in an epoch
streams       how long samples last that are used once
"""
