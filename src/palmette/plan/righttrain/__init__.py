"""RightTrain, its optimum and split learning: the least energy for a deadline and a loss.

strategy                  the strategy ``righttrain`` and its options
split_learning            the strategy ``split-learning``
epoch_planner             what these strategies share: they plan epochs and data for a loss
problem                   the task as arrays: layer times, routes, power, sources
epochs                    how long to train: the fewest iterations that reach a loss
data_amounts              how much data each source gives, and splits of the batch
sample_ways               what a sample of each source takes at least
trees                     instance trees, and their processing by equation (5)
symmetry                  trees and sets of nodes that differ only in the names of equal machines
layout                    from a tree and a mapping to instances and a phase
layer_costs               what a layer costs on each node at a price of time
mapping_table             the cheapest mapping of a tree at given prices
split_costs               the same for many splits of the batch at once
mean_loads                the mean load of nodes whose calls a bound counts together
mapping_bounds            a lower bound of a tree's energy, whatever its mapping and the split of its batch
open_bounds               the lower bounds of all trees, lowest first, and how they are raised
branch_bounds             those of a tree with one split, raised by branching on nodes
restricted_shortest_path  restricted shortest paths: exact, and Lorenz and Raz's approximation
steiner_tree              the mapping of Algorithm 1: a delay-aware Steiner tree on the expanded graph
iteration_time            the time of an iteration in closed form
geometric_program         the CPU shares as a geometric program
interior_point            its solver: a primal-dual interior-point method
cpu_shares                the optimal shares, generating the paths of an iteration as needed
shared_calls              a bound of a mapped tree that counts calls side by side together
cpu_allocation            the best shares of a mapped tree, checked by the evaluator
neighbours                plans next to a plan
regrouping                trees next to a mapped tree
starts                    plans to begin with, of other strategies, too
near_limits               plans near the cheapest mappings, where nodes have energy limits
min_time_search           the search for the least time
search                    RightTrain's search
plan_pool                 the plans of searches at deadlines that depend on the problem alone
deadlines                 the choice among them for a deadline
closest                   the closest that can be had where the fastest plan breaks an energy limit
decision                  the decision, or why there is none
optimum                   the optimum by branch and bound
"""
