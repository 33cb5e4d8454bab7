"""This machine as a cluster: slow CPUs, shaped links, honest clocks.

padding     how long each call has to last, and by how much to stretch time
links       shares emulated links among the transfers under way, as the event clock does
paced       the testbed that needs no privileges: transfers are paced, calls are padded
wiring      a cluster as network namespaces: addresses, routes, token buckets; pure
iproute     calls ip and tc, and sees to it that no namespace is left behind
namespaces  the testbed for root on Linux: TCP over veth pairs between namespaces
"""
