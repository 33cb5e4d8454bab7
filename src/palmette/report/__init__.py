"""Records in, pictures out. No search, no torch.

lines  a line chart as SVG
"""
