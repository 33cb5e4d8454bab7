"""Results as people see them.

console        where results are printed; JSON; quantities with units
progress_bar   a progress bar on stderr
plan           a plan's tree, its estimate and timeline
lower_bound    how far a plan may be from the best possible
device_choice  a ranking of clusters of devices
learning_curve  a fitted learning curve, and what it does not know
schedule       a schedule of models and nodes
comparison     all strategies, best first
variants       a plan after changes: kept as it is, and planned again
profile        a network's layers and their times
profile_progress  a progress bar while it is profiled
steps_progress  a progress bar of steps that have names
planning_progress  a progress bar while a plan is made
run_outcome    the outcome of a run
forecast       predicted losses, and how good predictors are
"""
