"""The parts of PACT.

moves     what can be done in an epoch, and what comes of it
play      a schedule with the losses that really happen
grid      the expanded graph, and what is ahead of each of its vertices
exact     what is ahead of a state, without a grid
search    the cheapest way to the target that is in time
paths     cheapest paths on the graph, also by a certain model
choose    the next move, by weight, risk and opportunity
online    epoch by epoch, with a ladder of estimates where the robust ones know no path
optimum   the exact optimum, and how near a goal can be met
reserves  robust estimates whose errors are independent
rivals    StaticLearn and OneSwitch
"""
