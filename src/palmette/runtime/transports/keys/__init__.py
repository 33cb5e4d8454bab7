"""The identity of nodes: a private authority, one certificate per node, and a list of revoked certificates.

certificates   issues certificates and checks them; pure
folder         the files: created, read and checked; valid ones are never overwritten
credentials    a node's key and certificate, and how it checks what others show
held           credentials in memory: those of one run, or of one node
pack           all that one node needs, in one file that a passphrase opens
enrolment      keys made on their nodes: requests, and answers to them
invitation     a code with which a node gets its certificate online, once
audit          a log of what happened to keys
pem            reads and writes single files in the PEM format
"""
