"""What ``auto`` finds out beside the best plan: why it wins, and what would change the answer.

worth  what a plan is worth for the goal, on any cluster
links  at which bandwidth of a link another strategy becomes better
nodes  what each node is good for: the best plan without it
alike  nodes and links that are equal but for their names
words  all of this in a paragraph
"""
