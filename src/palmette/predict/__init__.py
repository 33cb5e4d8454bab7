"""The loss to come: how much the next epochs, or a smaller model, will change it.

forecast    what a predictor is asked and what it answers; imports nothing heavy
power_law   a plain power law through the losses so far, where no trained predictor is at hand
"""
