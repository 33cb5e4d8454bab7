"""Trains a network as its plan says, from the first segment to the last.

job              what is to be run, updates while it runs, and its outcome
loop             a run from beginning to end
segments         the phases of a run with their lengths, past and future
phase_length     the iterations of an epoch and of a phase, and where a phase is in the whole training
launch           starts the workers of a segment or a hand-over, and calibrates the testbed
handover         the change from one phase to the next: the model is gathered, made smaller, and delivered
checkpoint       what a run can resume from
base_weights     what never changes in it, and is left out of checkpoints
engine_loss      resumes from what workers have kept where the engine died
evaluation       accuracy and loss on held-out data
owners           evaluation where private data lives
log              records what happens in a phase
remaining_time   the estimated time of what is left of a run
"""
