"""The identity of nodes: a private authority, one certificate per node, and a list of revoked certificates.

certificates   issues certificates and checks them; pure
folder         the files: created, read and checked; valid ones are never overwritten
held           credentials in memory: those of one run, or of one node
pem            reads and writes single files in the PEM format
"""
