"""Which devices should train: the search behind ``cluster_choice``.

fleet      the devices as arrays; time and power of any cluster, and of all that are one device away
worth      what the goal minimises, as a function of time and power
subsets    every cluster, where there are at most 16 devices
optima     the best for time, power or energy among any number of devices, with proofs
relaxed    a lower bound for any goal, and clusters that come close to it
descent    downhill, a device at a time
search     the way through all of this
front      the front of time and energy
"""
