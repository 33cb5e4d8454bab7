"""The only folder that measures: layer times, links, power and learning curves.

profiling              ``profile_network``: a network on all nodes of a cluster
layer_sizes            sizes and FLOPs of each layer
typical_length         inputs of typical length, where lengths vary
layer_times            seconds of each layer on this machine
pass_timer             one training pass through all layers, timed layer by layer
repetitions            how often, and with which batch sizes, to repeat it
clocks                 which clock to time with
compute_settings       threads, device and precision of what is measured
contexts               context managers to probe layers in
decode_time            seconds to turn stored samples into inputs
coding_time            seconds to compress and to extract gradients
call_time_fit          pure: times of some batches into a call's fixed part and seconds per sample
roofline               seconds of each layer on hardware of the catalogue
frozen_profile         a profile for a run that freezes more
build_time             the time until a device can train
bandwidth              bits per second between two nodes, measured by a transfer
probing                carries out on this machine what an engine asks for
hub_links              the links of a cluster whose messages all pass a hub
host_power             idle and busy watts by the meters of nodes' machines
hosts                  the same measurements on the machines that nodes are
communication_factors  pure: the cost of exchanging weights for a member of a cluster
meters                 meters of energy behind one protocol
counters               this machine's load
power_sampling         samples of counters and watts
power_fit              pure: watts as a linear function of counters
learned_power          pure: idle and busy watts, fitted to what meters measured in runs
csv_table              reads CSV files with a header
curves                 learning curves of real trainings, through prunings and handovers
"""
