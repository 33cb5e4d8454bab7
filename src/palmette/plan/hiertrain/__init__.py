"""HierTrain's formula and the search for its optimum; apart from the strategy since they need numpy.

ground   the numbers of a task: layer times, sizes and link rates as arrays
formula  equations (1) to (15): T_total of one policy
pieces   T_total for thousands of cuts at once, as sums of maxima of affine pieces in (b_s, b_l)
bounds   a closed lower bound of T_total for every cut of every assignment
samples  the best integers (b_s, b_l) for given cuts, exactly
exact    the optimum over assignments, cuts and samples
lp       Algorithm 1 of the paper: a linear program a cut, then rounding
tree     from a policy to its instance tree
"""
