"""A worker: the process that executes the programs of one node.

Read ``worker`` first, then ``executor`` (when operations run) and ``actions`` (what they do).

worker            the worker: executes programs on command, sends its weights on request
setup             what a worker is given when it starts
commands          the messages between engine and workers
executor          runs a program in threads: when each operation starts
actions           what the operations of an iteration do
compute           forward, backward and update of a node's instances
messages          tensors as the bytes of one message
batch_norm        batch norm with the statistics of the whole batch
partial_calls     calls that pause where replicas share these statistics
coroutine         a function that pauses to ask for a value
dropout           masks that do not depend on which node computes what
parameter_server  the weights of the whole network and their optimizer, for ``async``
state             weights and optimizer state, as a worker starts with them and reports them
rollback          a copy of the state before the current iteration
cpu_queue         a node's CPU, shared by calls first come first served
calibration       how long calls take on this machine without padding
tuning            process settings: threads and memory
failure           how errors of workers are reported and interpreted
"""
