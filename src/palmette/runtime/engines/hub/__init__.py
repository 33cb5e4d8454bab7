"""The engine whose workers dial in: from behind NAT and firewalls, one outbound connection each. No code travels.

    phone ── NAT ──▶ hub, in the engine's process ◀── cloud
                          ▲
                        server

engine      which hub, and its workers, by what a user says
server      the hub: a port where workers dial in, in a thread
crew        workers at a hub, as the engine sees them
membership  which nodes have a worker at the hub
relays      where the workers of a phase meet
messages    what engine and worker say to each other
codec       messages as bytes, checked by their types
orders      from a setup to an order: names instead of objects
allowed     what the owner of a worker allows
building    from an order to a setup, on the worker's machine
dialler     the worker's side: dials, serves, and dials again
"""
