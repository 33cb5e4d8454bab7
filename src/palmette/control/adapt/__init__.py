"""Continues with another plan when the cluster changes.

supervise   runs a session, and plans again when something changes
replanning  the same strategy's plan for what is left of a cluster
membership  which nodes are there
drift       whether a link's bandwidth is not what the cluster file says
online      PACT, which plans again after every epoch
"""
