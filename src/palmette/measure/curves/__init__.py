"""Learning curves of real trainings, through prunings and hand-overs, for predictors of the loss to learn from.

    grid      which trainings: when to prune, by how much, who goes on
    sets      what data each set of nodes owns
    training  one trunk on the first set, and the branches that go on from it
    collect   all of them, over the cores, into a file that grows line by line

As in Section VI-A of PACT, every training begins with the whole network on the gold set. After K1 epochs it is pruned
by F1 and handed over to silver or bronze; after K2 more it is pruned by F2 and handed over to the other of the two:

    gold ──K1──┬─ F1 ─▶ silver ──K2──┬─ F2 ─▶ bronze
               │                     └─ …
               ├─ F1 ─▶ bronze ──K2──┬─ F2 ─▶ silver
               └─ …                  └─ …

Trainings that begin alike share their beginning: a seed's trunk is trained once, and so is each branch up to its
last K2. What a branch becomes depends on its seed and its own settings alone, never on which others are trained, so a
collection that was broken off goes on as if nothing had been.
"""
