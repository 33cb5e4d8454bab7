"""The engine whose workers dial in: from behind NAT and firewalls, one outbound connection each. No code travels.

    phone ── NAT ──▶ hub, in the engine's process ◀── cloud
                          ▲
                        server

engine             which hub, and its workers, by what a user says
server             the hub: a port where workers dial in, in a thread
open_hubs          the hubs of this process
worker_connection  the connection of a worker, as the engine sees it
versions           which workers a hub understands
renewal            certificates of workers renew themselves
enrolment          a node that is invited gets its certificate
run_requests       answers people who ask a hub that keeps runs, as their roles allow
requests           what they say, and what it answers
client             their side
crew               workers at a hub, as the engine sees them
prober             measurements on the machines of workers
membership         which nodes have a worker at the hub
relays             where the workers of a phase meet
messages           what engine and worker say to each other
codec              messages as bytes, checked by their types
orders             from a setup to an order: names instead of objects
allowed            what the owner of a worker or a hub allows
limits             what the owner of a worker lets it take of its machine
building           from an order to a setup, on the worker's machine
access             where a hub is, and the credentials to enter
endpoint           where it connects to the other workers of a phase
dialler            the worker's side: dials, serves, and dials again
"""
