"""A hub that keeps runs: they are submitted to it, wait for their workers, and go on without a terminal.

queue       the runs, of which one goes on at a time
submission  what was submitted, checked by what the owner of the hub allows
"""
