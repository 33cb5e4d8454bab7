"""From a plan and a request to a training.

request     what a user asks of a run, checked
session     prepares a training, runs it, or resumes it
validation  whether plan, profile and network fit one another
data        the data of a run: its sources' own, or what all share
engines     engine, testbed and transport by name
record      run.json
"""
