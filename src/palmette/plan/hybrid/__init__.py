"""The search behind ``hybrid``: any tree on any number of nodes, by the event clock; apart since it needs scipy.

paths    a plan as the ways that samples take, and the instance tree that they make
world    what does not change during a search: nodes that can be used, samples of each source, cuts worth trying
judge    prices of plans, remembered and counted; what a goal makes of them
quick    what a plan takes at least, before the event clock plays it
starts   where the search begins: the rivals' plans, and plain patterns for many sources
edits    other ways for samples to take, lanes, and where gradients meet
descent  downhill from a start: samples, cuts, nodes, lanes, meeting nodes
stages   the search for all goals at once, from which the one that is asked for picks
bound    a lower bound of what any such plan costs, by a linear program
"""
