"""Records in, pictures out. No search of its own, no torch.

lines     a line chart as SVG
entry     plans and runs, read from their files
journal   the lines that a run appends to its files
priced    a plan as its page shows it
measured  a run as its page shows it
front     time and energy of all strategies
page      one HTML page that stands alone; its style and script are in assets
following a run while it goes on
serving   its page, alive, on loopback
claims    what papers claim beside ours, as a page
making    from plans and runs to a page
"""
