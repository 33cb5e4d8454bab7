"""Predictors of the loss: how much the next epochs, or a smaller model, will change it.

forecast         the input and output of a predictor, and its protocol; imports nothing heavy
registry         predictors by name
power_law        a power law through the losses so far, which needs no training
learned          a trained predictor, in a file; one ships
network          its two networks, those of Fig. 3 of PACT: λ_run and λ_change
training         their training: squared and pinball loss
examples         training examples: moments of real trainings, and what came after
taught           how far a predictor was taught, and what it is trusted with beyond
metrics          the quality of predictions: MAE, MIL and ICP
bounds           lower bounds of the robust estimate
ideal_curve      the ideal loss over time, and the value of a state beside it
shipped_curves   the curves that ship
loss_points      the losses of runs, and what they depend on
learning_curve   a learning curve through them
joint_fit        all of its exponents by least squares at once
added_terms      what windows and codecs cost beside runs with the same batches
standard_errors  how sure the exponents of a curve and the factors of its codecs are
held_out         how well a curve predicts runs that it was not fitted to
source_weights   what a sample of each source is worth, from runs that mix them differently
scalar_minimum   the global minimum of a function of one number
"""
