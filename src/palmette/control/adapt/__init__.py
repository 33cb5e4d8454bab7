"""Continues with another plan when the cluster changes.

supervise       runs a session, and plans again when something changes
replanning      the same strategy's plan for what is left of a cluster
membership      which nodes are there
drift           what links reach in the iterations of a run
link_history    what they have reached so far, and what to believe of them now
reached_prices  what plans and changes take at the rates that links reach
switching       whether a change to another plan pays
pauses          how long a run stands still for a change
online          PACT, which plans again after every epoch
"""
