"""Turns plans, runs and claims into pages and charts. No search of its own, no torch.

build        from plans and runs to a page
entry        plans and runs, read from their files
run_files    reads the metrics and the trace of a run
plan_view    a plan as its page shows it
run_view     a run as its page shows it
pareto       time and energy of all strategies
sliders      what plans take at other bandwidths, for the sliders of the page
page         one self-contained HTML page; its style and scripts are in assets
live_run     a run in progress
live_server  its live page, on loopback
claims       the papers' claims beside our results, as a page
notebook     the same things in a notebook, without scripts
line_chart   a line chart as SVG
bar_chart    a bar chart as SVG
"""
