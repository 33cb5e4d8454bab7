"""The loss to come: how much the next epochs, or a smaller model, will change it.

forecast    what a predictor is asked and what it answers; imports nothing heavy
power_law   a plain power law through the losses so far, where no trained predictor is at hand
examples    what curves teach: moments of real trainings, and what came after
network     the two networks of Fig. 3 of PACT: λ_run and λ_change
training    how they learn: squared and tilted loss
learned     a trained predictor, in a file of its own; one ships
judging     how good predictions are: MAE, MIL and ICP
bounds      what the robust estimate may not be more optimistic than
named       a predictor by its name, as options have it
shipping    the curves that ship
"""
