"""Figs. 2 and 5 to 7 of Gu et al.: the choice of the best cluster of devices.

paper       its machines, links and networks; what is known of a case
catalogue   cases by the event clock, with layer times of the catalogue
measured    cases with layer times of this machine, devices pre-trained and clusters trained on the testbed
simulation  what a cluster takes by the event clock, with all its devices at once
figures     the figures
fit         which machines would make the claims true: an inverse problem
fitted      the machines that it found, and the claims that exclude each other
claims      what the paper reports, beside what came out here
"""
