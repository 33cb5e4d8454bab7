"""PACT's Table I and Figs. 2, 4, 6 to 9.

figures          the table and the figures
federated        Fig. 2's trainings: federated averaging, with a pruning and nodes that join
kept_trainings   the same, each kept in a file, so that a command resumes
accuracy         Fig. 2: accuracy over time, and what the paper observes
predictions      Table I and Fig. 4: how well the loss is predicted
schedules        Figs. 6 to 9: what schedules cost
schedule_claims  what the paper claims about schedules, beside what came out here
"""
