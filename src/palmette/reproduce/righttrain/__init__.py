"""RightTrain's Fig. 3.

figures  the figure: energy, time, epochs and data against the deadline
claims   what the paper claims, beside what came out here
"""
