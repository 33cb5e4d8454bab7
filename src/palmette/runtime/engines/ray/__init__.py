"""The engine on an existing Ray cluster: one actor pinned to each node of the plan. Ray supervises, nothing more.

A host of the cluster stands for a node by a custom resource of the node's name (``palmette cluster join`` sees to it).
Commands, events and checkpoints travel through Ray; tensors through the transport.

library     Ray itself, imported when it is needed
joining     makes this machine a host of a cluster
hosts       which host stands for which node, and things done there
actor       what runs on a host
beacons     signs of life from hosts
clocks      the clocks of hosts beside this one's
crew        workers on hosts
"""
