"""The transport on a network that you do not trust: gRPC streams with mutual TLS.

Workers dial out to one hub, the only one with a port that others must reach; what two workers say to each other goes
through it. All are known by their certificates.

    phone ──▶ hub (on server) ◀── cloud
                   ▲
                 server

frames      what travels on a stream: a header and raw bytes
hub         joins the streams of two workers, and lets nobody else in
local       the hub's own machine
streams     a worker's streams
transport   a worker's end
meeting     where the workers of a phase meet
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what goes wrong is told by errors; read when grpc is imported
