"""From one file to a trained network: each step's file is kept, and a step is done again only where its inputs changed.

inputs      reads the file and what it refers to, without torch
steps       the steps before the run: trust, profile, compare, plan
folder      the files of the steps, and what each was made from
cache       profiles by network, machine and versions, for all trainings of a user
request     what the file asks of the run
links       links that were guessed, as machines measure them
dialled_in  the cluster of the workers at a hub, for palmette init
"""
