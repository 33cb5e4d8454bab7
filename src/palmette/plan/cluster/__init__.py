"""Cluster choice: which of several unequal devices should train together.

strategy         cluster choice as a strategy: measurements in, a plan out
search           the best cluster for a goal, by the methods below
fleet            the devices as arrays; time and power of any cluster, and of all that differ by one device
contention       how much slower devices are that share the way to the parameter server
objective        the goal's objective as a function of time and power
subsets          all clusters, where there are at most 16 devices
single_quantity  the optimum for time, power or energy of any number of devices, with proofs
lower_bound      a lower bound for any goal, and clusters that come close to it
local_search     local search by adding and removing devices
pareto_front     the Pareto front of time and energy
"""
