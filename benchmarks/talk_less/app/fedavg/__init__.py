"""Federated averaging as a Flower app; it is run in Flower's own environment, and imports nothing of Palmette.

networks    those of the benchmark; the file is put here when the app is started
client_app  a client: the steps of a round on its own samples, as long as they take on its device
server_app  federated averaging, one round at a time as it is told, with a line for each
"""
