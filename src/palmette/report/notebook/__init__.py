"""Plans, estimates, clusters and runs as a notebook shows them: HTML and SVG without scripts.

views     what is shown of each
markup    tables and headings
tree      the instance tree on the nodes, as SVG
timeline  the operations of one iteration, as SVG
canvas    how SVG elements are written
"""
