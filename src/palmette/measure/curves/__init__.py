"""Learning curves of real trainings, through prunings and handovers, to train predictors of the loss on.

grid           the trainings: when to prune, by how much, who continues
node_sets      the data of each set of nodes
trainer        trains a network in one process
branches       one trunk on the first set, and the branches that continue from it
expected_time  how long all of them will take
collect        all of them, in parallel, into a file that grows line by line

As in Section VI-A of PACT, every training begins with the whole network on the gold set. After K1 epochs it is pruned
by F1 and handed over to silver or bronze; after K2 more it is pruned by F2 and handed over to the other of the two:

    gold ──K1──┬─ F1 ─▶ silver ──K2──┬─ F2 ─▶ bronze
               │                     └─ …
               ├─ F1 ─▶ bronze ──K2──┬─ F2 ─▶ silver
               └─ …                  └─ …

Trainings with the same beginning share it: a seed's trunk is trained once, and so is each branch up to its last K2. A
branch depends on its seed and its own settings alone, never on which others are trained, so a collection that was
interrupted resumes as if it had not been.
"""
