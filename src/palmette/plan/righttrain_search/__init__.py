"""The search behind ``righttrain``, its optimum and split learning; apart since it needs numpy.

epochs      how long to train: the fewest iterations that reach a loss
ground      a task as numbers
trees       instance trees, and their processing by equation (5)
layout      from a tree and a mapping to instances
costs       what a layer costs on each node at a price of time
bound       a lower bound of what a tree costs, whatever its mapping
joint       the same with all groups of a layer at once, closer
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
