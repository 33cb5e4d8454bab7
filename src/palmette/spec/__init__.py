"""What things are. Frozen, self-validating, with a JSON or YAML round trip; no torch.

units     quantities with units, as people write them
document  the base of all models: every fault at once, under the names that stand in the file
files     reading and writing, without tracebacks
cluster   nodes, links, sources, limits
profile   layers and what they cost on each node
tree      instances, what feeds them, and whether their layers join
problem   PACT's models, sets of nodes, and what epochs and changes cost
learning  how the loss falls with epochs and data
sync      how replicas agree
plan      phases of instance trees
run       what a run leaves behind
estimate  the evaluator's price
trace     operations, predicted or real
goal      what to minimise, under which deadline and loss
"""
