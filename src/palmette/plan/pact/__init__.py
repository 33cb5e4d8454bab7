"""PACT: which model to train on which nodes, epoch by epoch, for a loss by a deadline.

strategy              PACT, its optimum, StaticLearn and OneSwitch as strategies
problem_from_profile  builds a problem from a profile, a cluster and a predictor
phases                the phases of a real training, and those of a schedule
actions               what can be done in an epoch, with its costs
simulation            a schedule with the true losses
expanded_graph        loss and time in whole steps, and the cost-to-go of every vertex
exact_cost_to_go      the cost-to-go of a state without discretizing
label_search          the cheapest path that meets target and deadline
paths                 cheapest paths on the expanded graph, also through a given model
action_selection      the next action, by weight, risk and opportunity
online                epoch by epoch, with less cautious estimates where the robust ones find no path
optimum               the exact optimum, and how close a goal can be met
independent_errors    robust estimates for errors that are independent
rivals                the search for schedules of StaticLearn and OneSwitch
"""
