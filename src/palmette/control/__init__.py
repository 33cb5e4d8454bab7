"""Plan, run, observe, plan again.

run         from a plan file and options to a run, and what it leaves behind
data        the data of a run: its sources' own, or what all share
engines     what a run stands on, by name
weights     the weights that a run begins with, and the file it ends with
replanning  the same strategy's plan for what is left of a cluster
news        whether the cluster has changed
drift       whether a link is not what the cluster file says
online      PACT, which plans again after every epoch
supervise   goes on with another plan when it has
pretrain    every device of a cluster trains alone for a short while, and is measured
pruning     palmette prune
learnt      what runs say about learning
stopwatch   when its warm-up is over, and what its steps took
"""
