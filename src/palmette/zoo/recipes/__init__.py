"""A user's training: network, data, loss, and how it is optimised.

recipe     what a recipe is
loading    a recipe by its name
objects    a recipe from modules and data sets that are objects
loss       losses that can be summed over parts of a batch
objective  what training minimises, and the labels that it needs for that
template   a recipe file to start from
"""
