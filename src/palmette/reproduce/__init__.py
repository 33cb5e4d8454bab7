"""The papers' figures, from the parts below.

hiertrain         Figs. 7 to 11 and Table II of HierTrain
hiertrain_claims  what that paper claims, beside what came out here
"""
