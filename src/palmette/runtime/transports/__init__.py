"""How messages travel between workers, how workers find each other, and how lost ones are noticed.

base         the interfaces: a transport, and an endpoint where workers connect
registry     the transports by name, one row each
rendezvous   how the workers of a phase find each other
store        the store through which hosts that share no files find each other
gloo         the transport on a network that you trust: torch.distributed
tls          the transport on a network that you do not trust: gRPC through a hub
memory       the transport between threads of one process
lengths      messages whose size the receiver does not know
yielding     background messages give way to foreground ones
marking      marks connections of background messages for the network
heartbeat    notices silent peers, over the same network as the messages
liveness     how long peers have been silent
keys         certificates that identify nodes
service      a service that a transport needs, such as a hub
"""
