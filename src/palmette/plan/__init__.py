"""Strategies: each makes plans for a task. One folder per family, behind one Protocol.

core        what all strategies share: the Protocol, the registry, from a decision to a plan, comparison
rivals      what users do without Palmette: all on one node, JointDNN, JALAD
hiertrain   HierTrain: three workers share the first layers
righttrain  RightTrain, its optimum and split learning: the least energy for a deadline and a loss
pact        PACT, its optimum, StaticLearn and OneSwitch: schedules of models and nodes
cluster     Gu et al.: which devices should train, by measurements of each
hybrid      any tree, the best that a search on the event clock finds
auto        the best of all of them, why, and what would change the answer
"""
