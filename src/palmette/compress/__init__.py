"""Smaller messages and smaller models.

codec   how activations and gradients travel: as they are, or as 8-bit integers
"""
