"""Emulates a cluster on this machine: slow CPUs, shaped links, one clock for both.

registry           the testbeds by their names
padding            how long each call has to last, and the time dilation
paced              the testbed that needs no privileges: transfers are paced, calls are padded
link_emulator      shares emulated links among the transfers in flight, as the event clock does
jitter             random delays of messages
replay             the traces of links in emulated time
read_ahead         takes samples off the wire as they come, so that latencies do not add up
namespaces         the testbed for root on Linux: TCP over veth pairs between network namespaces
namespace_network  a cluster's addresses, routes and token buckets as lines for ip and tc; pure
iproute            calls ip and tc, and makes sure that no namespace is left behind
"""
