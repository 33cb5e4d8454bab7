"""The only folder that probes: what a network's layers cost, measured here or predicted for other machines.

hosts        times on the hosts of a Ray cluster
profiling    ``profile_network``: a network on all nodes of a cluster, the way through all of this
layers       sizes and FLOPs of each layer
times        seconds of each layer on this machine
passes       one pass of training through all layers, and the time of each
rounds       how often, and with how many samples, to repeat it
clocks       whose seconds count
conditions   what has to hold while it is timed
fit          pure: seconds of some batches into a call's fixed part and seconds a sample
modelled     seconds of each layer on hardware of the catalogue
building     how long it takes until a device can train
bandwidth    bits a second between two nodes, by a transfer of our own
factors      pure: what the exchange of weights costs a member of a cluster
meters       joules, metered or modelled, behind one seam
counters     what this machine says of its load
sampling     counters and watts side by side
csv_table    how both are written and read
power_fit    pure: watts as a linear function of counters
curves       learning curves of real trainings, through prunings and hand-overs
"""
