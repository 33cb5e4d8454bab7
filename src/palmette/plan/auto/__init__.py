"""``auto``: the best of all strategies, why it wins, and what would change the answer.

strategy     the strategy itself
objective    the goal as one number, for plans on any cluster
links        at which bandwidth of a link another strategy becomes better
nodes        what each node contributes: the best plan without it
horizon      for how many epochs which plan is best
delivery     how samples travel, and how the plan compares with uploading first
recompute    which nodes recompute activations, and what that costs
varying      how much an iteration varies with links that do, and when planning again pays
symmetry     nodes and links that are equal but for their names
explanation  all of this in a paragraph
"""
