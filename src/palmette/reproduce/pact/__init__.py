"""PACT's Table I and Figs. 4, 6 to 9.

figures          the table and the figures
predictions      Table I and Fig. 4: how well the loss is predicted
schedules        Figs. 6 to 9: what schedules cost
schedule_claims  what the paper claims about schedules, beside what came out here
"""
