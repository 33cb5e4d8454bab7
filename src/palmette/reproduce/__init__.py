"""The papers' figures, from the parts below.

hiertrain           Figs. 7 to 11 and Table II of HierTrain
hiertrain_paper     its machines, links, networks and bandwidths
hiertrain_measured  the same with layer times of this machine, and a dozen points run on the testbed
hiertrain_claims    what that paper claims, beside what came out here
hiertrain_causes    what decides over the differences: one assumption changed at a time
cluster             Figs. 5 to 7 of Gu et al.
cluster_truth       what a cluster needs by the event clock, with all its devices at once
cluster_measured    the same with layer times of this machine, devices pre-trained and clusters trained on the testbed
cluster_claims      what that paper reports, beside what came out here
everything          every claim of the four papers beside ours
righttrain          Fig. 3 of RightTrain
righttrain_claims   what that paper claims, beside what came out here
pact                PACT's Table I and Figs. 4, 6 to 9
pact_predictions    its Table I and Fig. 4: the loss foretold
pact_schedules      its Figs. 6 to 9: what schedules cost
pact_schedule_claims  what it claims about schedules, beside what came out here
"""
