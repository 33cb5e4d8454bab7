"""What all strategies share.

strategy       what a strategy is: the Protocol, the task that it is given, the decision that it makes
registry       every strategy by its name
make_plan      from a strategy's decision to a plan: timed, checked and priced
comparison     the plans of all strategies for one task, best first
choice         the best of several phases
one_node       the simplest phase: the whole network on one node
samples        how a batch is divided among the sources
owner          the one node that owns the data, for strategies with one source
memory_budget  the memory that a search may fill on each node
parallel       jobs in parallel, each in its own process
"""
