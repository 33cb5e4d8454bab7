"""A worker: the process that executes the programs of one node.

Read ``worker`` first, then ``executor`` (when operations run) and ``actions`` (what they do).

worker            the worker: executes programs on command, sends its weights on request
setup             what a worker is given when it starts
commands          the messages between engine and workers
executor          runs a program in threads: when each operation starts
actions           what the operations of an iteration do
deliveries        both ends of a source's channel: which samples are sent, and which were kept
sample_transfers  the threads that carry samples, which may be ahead of the iterations
kept_outputs      outputs that both ends keep by sample, so that later ones travel as deltas
bundles           the tensors that pass between instances: joined, divided, packed
compute           forward and backward of a node's instances
instance_layers   the layers of these instances: which they share, which each updates
precision         automatic mixed precision
weights           which weights of layers are trained, tied or shared
gradients         gradients of weights, kept from backward to update
layer_pieces      tensors of layers that are taken piece by piece
saved_forward     what instances keep from forward to backward
weight_half       a backward pass in two halves, of which the second waits
recompute         blocks of layers that are computed again before their backward
accumulation      gradients that are added up on a node until they are taken or exchanged
gradient_coding   gradients of replicas on the wire, with error feedback
divisors          the divisor of a batch's loss, where several roots find it together
instance_optimizers  the optimizers of these instances, and their state by the names of weights
optimizers        accumulates gradients, clips them and updates weights
messages          tensors as the bytes of one message
fixed_point       weights as whole numbers, of which sums are exact
pairwise_masks    masks that pairs of instances share, for secure aggregation
batch_norm        batch norm with the statistics of the whole batch
partial_calls     calls that pause where replicas share these statistics
coroutine         a function that pauses to ask for a value
dropout           masks that do not depend on which node computes what
parameter_server  the weights of the whole network and their optimizer, for ``async``
state             weights and optimizer state, as a worker starts with them and reports them
owner_evaluation  the whole network on the held-out part of a node's own data
replica_state     the optimizer states of several replicas in one dictionary
rollback          a copy of the state before the current iteration
kept_state        what workers leave on the disk when their engine is gone
cpu_queue         a node's CPU, shared by calls first come first served
calibration       how long calls take on this machine without padding
tuning            process settings: threads and memory
failure           how errors of workers are reported and interpreted
"""
