"""Short real runs that teach how a network learns: pilots, and the learning curve through them.

request    what a user asks of a pilot, checked
grid       which runs are made: a list of settings
placement  where a pilot computes, and the instance tree of a setting
pilot      makes the runs, continues them, and fits the curve
"""
