"""What users do without Palmette: the whole network on one node or on several, or one chain of instances.

whole         all-device, all-edge, all-cloud
upload        all samples once to the best node, the whole network there
near_first    where the data is while it is uploaded, then where it has arrived
federated     federated averaging: every owner of data is a client
local_sgd     replicas that average their weights after every few steps
diloco        the same with an outer optimizer
jointdnn      JointDNN and JointDNN+: a chain over two nodes or all, by a shortest path
jalad         JALAD: one cut between an edge server and the cloud, 8-bit integers on it
chain         a chain of instances as a phase, and the formula of its time
chain_search  the chain with the least time, by A*
"""
