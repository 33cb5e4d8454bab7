"""The search behind ``righttrain``, its optimum and split learning; apart since it needs numpy.

epochs      how long to train: the fewest iterations that reach a loss
ground      a task as numbers
trees       instance trees, and their processing by equation (5)
layout      from a tree and a mapping to instances
costs       what a layer costs on each node at a price of time
bound       a lower bound of what a tree costs, whatever its mapping
symmetry    trees and sets of nodes that differ in the names of equal machines only
instances   every instance that a tree can have, and what it costs at prices of time and of CPUs
split       how the price of time is split over the ways through an iteration
joint       the cheapest mapping of all groups of a layer at once, at such prices: a closer bound
dual        the prices that make it closest
restricted  restricted minimum-weight paths: exact, and Lorenz and Raz's approximation
steiner     the mapping of Algorithm 1 on the expanded graph
model       the time of an iteration in closed form
program     the geometric program of the CPU shares, and its solver
allocate    the best shares of a mapped tree, judged by the evaluator
quickest    the least time
search      RightTrain's search
exact       the optimum by branch and bound
verdict     the plan, or why there is none
"""
