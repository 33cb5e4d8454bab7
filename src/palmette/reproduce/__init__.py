"""The papers' figures, beside what the papers claim. Experiments on top of everything; nothing below imports them.

    hiertrain   Figs. 6 to 11 and Table II of HierTrain
    righttrain  Fig. 3 of RightTrain
    cluster     Figs. 2 and 5 to 7 of Gu et al.
    pact        Table I and Figs. 4, 6 to 9 of PACT
    everything  every claim of the four papers beside ours
    inverse     which unknowns make claims true, and which claims contradict each other
    fitted      machines fitted to claims, and what they say about each claim
    progress    what they share: records, and a callback for progress

Every paper has ``figures.reproduce(progress)``, which returns a record with the figures and the claims.
"""
