"""Federated averaging as a Flower app; it is run in Flower's own environment, and imports nothing of Palmette.

network     LeNet-5, layer by layer that of Palmette's zoo
client_app  a client: one epoch over its own samples
server_app  federated averaging, with a line for each round
"""
