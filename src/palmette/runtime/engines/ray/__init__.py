"""The engine on an existing Ray cluster: one actor per node of the plan, pinned to its host. Ray only supervises.

A host stands for a node by a custom resource with the node's name, which ``palmette cluster join`` adds.
Commands, events and checkpoints travel through Ray; tensors through the transport.

library     Ray itself, imported when needed
join        adds this machine to a cluster as the host of a node
hosts       which host stands for which node, and calls made there
actor       what runs on a host
heartbeats  heartbeats from hosts
crew        workers on hosts
prober      measurements on hosts
"""
