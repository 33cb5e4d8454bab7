"""HierTrain: hybrid parallelism over three workers, and the search for its best policy.

strategy          the strategy and its options
problem           the task as arrays: layer times, sizes, link rates, memory
formula           equations (1) to (15): T_total of one policy
piecewise_linear  T_total for many placements at once, as piecewise-linear functions of (b_s, b_l)
lower_bounds      a closed-form lower bound of T_total for every placement
feasible_region   which (b_s, b_l) memory and private data allow, as linear constraints
batch_split       the best integers (b_s, b_l) for given placements, exactly
exact_search      the optimum over assignments, cuts and batch splits
linear_program    Algorithm 1 of the paper: one linear program per pair of cuts, then rounding
tree              from a policy to its instance tree
"""
