"""The progress of a run, where somebody sees it.

choice    in a terminal, in a notebook, or nowhere
terminal  a bar on stderr
notebook  a bar in a cell's output
lines     lines of text, where there is no terminal
style     what all bars in a terminal look like
wording   what they say, as text
"""
