"""Every device of a cluster trains alone for a short while, and is measured.

request      what a user asks of a pre-training, checked
pretrainer   measures all devices and the paths between them
device_runs  runs of one device, alone or with the parameter server elsewhere
step_timer   when the warm-up is over, and how long steps took
progress     how far it is
power        the watts of a device
"""
