"""The parts of a phase and what it costs under each kind of ``sync``: one file per kind.

base          what cost knows of a kind
step          an iteration is the whole tree once, exchange of gradients included
epoch         an epoch lasts as long as the slowest tree with its shard, plus the exchange of weights
asynchronous  an iteration is one worker's step; its mean time is 1 / Σ of the workers' rates
registry      the kinds by their names
"""
