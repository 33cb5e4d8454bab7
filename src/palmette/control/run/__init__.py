"""From a plan and a request to a training.

request       what a user asks of a run, checked
session       prepares a training, runs it, or resumes it
folder        the folder of a run: who owns it, and what of a run is removed there
callbacks     what a user's program hears of a run while it goes on
validation    whether plan, profile and network fit one another
owner_limits  a plan within what owners of workers allow
recipes       which training it is: a recipe's, or a network with data
data          the data of a run: its sources' own, or what all share
known_names   names of engines, testbeds and transports
engines       engine, testbed and transport of a run
record        run.json
listing       a run's folder as an entry of a list
metering      meters of nodes, read while a run goes on
trust         code that files name, and whether the user trusts it
callables     optimizers and schedules of the user's own in run.json
"""
