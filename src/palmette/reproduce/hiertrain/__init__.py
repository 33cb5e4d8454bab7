"""HierTrain's Figs. 6 to 11 and Table II.

paper        its machines, links, networks and bandwidths
figures      the figures and the table
measured     the same with layer times of this machine, and a dozen points run on the testbed
claims       what the paper claims, beside what came out here
fit          which machines would make the claims true: an inverse problem
fitted       the machines that it found, and the claims that exclude each other
sensitivity  the speed-ups with one assumption changed at a time
"""
