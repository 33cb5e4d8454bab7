"""``hybrid``: any tree on any number of nodes, by the event clock.

strategy     the strategy itself, and what its decision states
problem      what does not change during a search: usable nodes, samples of each source, cuts to try
rates        what a node adds to the energy, the money and the carbon of a plan
paths        a plan as the paths that samples take, and the instance tree that they make
pricing      prices of plans, remembered and counted; the objective that a goal makes of them
quick_bound  what a plan takes at least, before the event clock plays it
starts       where the search begins: the plans of other strategies, and simple patterns for many sources
edits        other paths for samples, microbatches, and where gradients meet
deltas       coded outputs as deltas to kept ones
descent      local search from a start: samples, cuts, nodes, microbatches, meeting nodes
stages       the search for all goals at once, from which the requested one picks
pipelines    pipelines of many small microbatches in turns
side_by_side  the whole network on several nodes, with microbatches that grow
small_space  all plans of a problem with few nodes, layers and samples
exchange_bound  what a plan takes at least whose replicas exchange gradients
small_search  the best of them
bound        a lower bound of what any such plan costs, by a linear program
integer_bound  one for few nodes that counts what replicas exchange, by a mixed-integer program
"""
