"""Takes a finished plan and executes it. Knows no strategy.

The way of an iteration:

program     what each node does, as plain operations; pure
parts       the programs of a phase: of the whole, or of each tree and of the exchange; pure
execute     runs a program: what waits for what, in threads
actions     what the operations of a tree's iteration do
compute     forward, backward and update of instances
packing     tensors as bytes
batch_norm  its statistics over the whole batch
stepwise    a function that stops in its midst to ask for something
segments    calls that stop where replicas share statistics
dropout     masks that do not depend on who computes what
batches     which samples an iteration takes
shares      which samples each source owns
labels      which labels go with a message, and which stay
samples     what each source gives to an iteration
sources     the data as a worker finds it
cpu         turns at a node's CPU

How replicas agree, on a node and from the engine:

role        a node's share in an agreement
stepping    ``step``: averages of gradients
averaging   ``epoch``: averages of weights
server      ``async``: a parameter server and its workers
rounds      how a phase proceeds; ``step``
epoch_rounds, async_rounds   likewise
grants      steps of trees, given out and collected

Around it:

transport   how bytes travel: the interface, and memory for tests
gloo        over torch.distributed
tls         over gRPC streams with mutual TLS
keys        who a node is: certificates of a private authority
meeting     where the workers of a phase meet: the seam between ground and transport
presence    notices a peer that has gone silent
silence     who has been silent for long
keepsake    what a node goes back to when an iteration cannot be finished
worker      one node's share of a run
control     what engine and workers tell each other
failure     what a worker says when it cannot go on
engine      starts workers as processes, and notices when one is gone
forking     how its processes come to be
folder      where they meet
service     what a run needs beside its workers, as a process
warm        what they all import
threads     workers as threads, for tests
ground      what workers stand on: this machine, or a testbed's cluster
rehearsal   how long calls take here when nothing is padded, and what work they do
widening    whether this machine keeps up, and by how much to stretch time further
outlook     how long what is left will take here
tuning      how a worker's process uses memory and threads
training    a run from beginning to end
course      its segments, as far as they are known
hiring      workers for one of them
handover    from one to the next: the model is gathered, made smaller and sent; relay is a node's part in it
job         what is to be run, and what it came to
lengths     how many iterations that is
judge       accuracy on held-out data
checkpoint  what a run can go on from
log         what happens, written down and added up
record      metrics and trace
stretch     how busy the nodes were, and with what energy
options     how to train
"""
