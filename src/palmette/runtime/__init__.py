"""Executes a finished plan; knows no strategy.

Read ``program`` first: the operations that one node executes in an iteration. An iteration flows like this:
``phase_programs`` compiles a phase into one program per node. ``training`` starts one worker per node on an engine, and
the workers connect over a transport. For each iteration, the engine's side of the phase's sync sends the workers a
command. Each worker executes its program: it takes samples from ``data`` or receives the outputs of others, computes
forward and backward, exchanges gradients or weights as defined by the worker's side of the sync, and updates. It then
reports its loss and the times of its operations, which ``record`` writes down.

preload           what every worker process needs, imported once
program           what each node does in an iteration, as plain operations; pure
phase_programs    the programs of a phase: of the whole, of each tree, of the exchange of weights; pure
early_stopping    which metric decides about the best weights, and when a run stops
held_out          a network on held-out data, as sums that an owner may report
devices           what a node computes on: the CPU or a GPU
options           training options: optimizer, schedule, clipping, precision, seed
optimizer_choice  the optimizer that options describe: made, tried, priced
schedule          the learning rate of each iteration
worker            one node's worker: executes its programs
sync              how replicas are synchronized: ``step``, ``epoch`` and ``async``, worker's and engine's side
data              which samples each source trains on
engines           start workers and watch them: local processes, threads for tests, Ray
transports        how messages travel between workers: gloo, TLS, memory for tests; heartbeats and rendezvous
training          a run from start to end: segments, checkpoints, evaluation, hand-overs
record            what happened: operations, metrics and trace
tensor_file       tensors in a file with the same bytes for the same content
"""
