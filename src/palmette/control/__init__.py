"""Plan, run, observe.

run    from a plan file and options to a run, and what it leaves behind
"""
