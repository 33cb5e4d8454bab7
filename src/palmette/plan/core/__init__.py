"""What all strategies share.

strategy       what a strategy is: the Protocol, the task that it is given, the decision that it makes
tensor_input   inputs for samples that travel as tensors, as the papers count them
used           a plan as it is to be used: epochs, and samples in which form
delivery       how the samples of a phase are best delivered
order          in which order nodes compute their microbatches
recompute      which instances recompute, where memory would forbid a phase
upload         plans that begin with an upload: first, or while training
registry       every strategy by its name
make_plan      from a strategy's decision to a plan: timed, checked and priced
comparison     the plans of all strategies for one task, best first
until_loss     plans that train until a learning curve has reached a loss
agreement      how seldom and how small replicas agree, and on how much of the data
least_to_loss  the plan with the least time or energy to a loss
choice         the best of several phases
one_node       the simplest phase: the whole network on one node
forest         the whole network on each of several nodes, which share a batch
samples        how a batch is divided among the sources
owner          the one node that owns the data, for strategies with one source
memory_budget  the memory that a search may fill on each node
parallel       jobs in parallel, each in its own process
"""
