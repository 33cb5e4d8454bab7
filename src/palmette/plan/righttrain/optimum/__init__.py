"""The optimum of RightTrain's problem, with proof: Lagrangian bounds and branch and bound.

strategy            the strategy ``righttrain-optimum``
branch_and_bound    the search for the optimum
branching           branching on the node of a group
dual_ascent         the multipliers with the highest Lagrangian bound
joint_mapping       the bound at given multipliers: the cheapest joint mapping by dynamic programming
possible_instances  every instance that a tree can have, and its cost at prices of time and CPUs
states              the states of a group: its node and the first layer of its instance
path_weights        how the price of time is split over the paths through an iteration
"""
