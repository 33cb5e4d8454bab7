"""Engines start the workers of a run, exchange commands and events with them, and notice when one is lost.

base            what an engine is, and what it is made from
registry        the engines by name, one row each
crew            the workers of a run as the engine sees them
remote_crew     what crews on other machines share: events, silence, who is at fault
local           one process per node, on this machine
ray             one Ray actor per node, on the hosts of a Ray cluster
hub             one worker per node, which has dialled in from wherever it is
threads         one thread per node, in this process; for tests
probes          measurements on the machines of nodes, as requests and results
membership      which nodes are available
clocks          the clocks of other machines, converted to this one's
testbed         what workers run on: real machines, or a cluster that a testbed emulates
service         a service beside the workers, such as a hub, in a process of its own
forkserver      the fork server from which all processes of a run are started
socket_folder   temporary folders with paths short enough for sockets
"""
