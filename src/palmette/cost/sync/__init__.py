"""The parts of a phase and what it costs under each kind of ``sync``: one file per kind.

base          what cost knows of a kind
step          an iteration is the whole tree once, exchange of gradients included
epoch         an epoch lasts as long as the slowest tree with its shard, plus the exchange of weights
every         a window lasts as long as so many steps of the slowest tree, plus the exchange of weights
clients       a part of the trees in each round of federated averaging
turns         parts of the network that are exchanged in turns under ``every``
windows       what these two have in common: steps of trees that train apart, and the exchange
asynchronous  an iteration is one worker's step; its mean time is 1 / Σ of the workers' rates
registry      the kinds by their names
"""
