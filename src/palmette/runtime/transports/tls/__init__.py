"""The transport on a network that you do not trust: gRPC streams with mutual TLS.

Workers connect to one hub, which relays the messages between them; it is the only one with a port that others must
reach. All are identified by their certificates.

    phone ──▶ hub (on server) ◀── cloud
                   ▲
                 server

frames       the message format on a stream: a header and raw bytes
credit       how many bytes may be sent before the receiver asks for them
hub          relays between the streams of two workers, and refuses all others
local        the local socket for the worker on the hub's own machine
streams      a worker's streams
connections  the connections that they are opened on
transport    a worker's transport
rendezvous   the rendezvous at a hub
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # errors are raised, not printed; read when grpc is imported
