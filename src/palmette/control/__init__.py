"""Plan, run, observe, plan again.

run               from a plan and a request to a training, and what it writes
adapt             continues with another plan when the cluster changes
progress          shows how far a run is
detached          runs without a terminal on this machine
track             writes a run to TensorBoard, MLflow or Weights & Biases
measured_cluster  links and power, measured where the nodes are
pretrain          every device of a cluster trains alone for a short while, and is measured
weights           files of weights: written, and loaded into a network
adapters          files of adapters, as peft reads them
prune             a network made smaller and written to a file
up                from one file to a trained network, step by step
what_if           what a plan would cost if something were different
doctor            what a machine can do, and how to fix what is missing
hub               a hub that keeps runs
pilot             short real runs that teach how a network learns
learn             a learning curve fitted to runs
learn_power       the power of nodes, as meters measured it in runs
"""
