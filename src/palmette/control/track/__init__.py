"""Trackers: experiment logs of other projects that a run writes to, by ``--track``.

tracker      what a tracker is, and the run that it gets to know
events       from what happens in a run to what trackers write
registry     the trackers by name, one row each
tensorboard  event files for TensorBoard
mlflow       a run on an MLflow server or in a local database
wandb        a run of Weights & Biases
"""
