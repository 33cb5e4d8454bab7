"""How replicas are synchronized: one file for each kind of ``sync``, with the worker's and the engine's side of it.

Read ``base`` first, then ``step``. A new kind is one file and one row in ``registry``.

base                 the interface: a sync method and its two sides
registry             the sync methods by name
step                 ``step``: gradients are averaged in every iteration, or once an update
norm_exchange        the norm of gradients that nodes find together, to clip them by it
update_schedule      when that is, where gradients accumulate
epoch                ``epoch``: federated averaging, weights are averaged after every epoch
every                ``every``: local SGD and DiLoCo, weights are averaged after every few steps
turns                parts of the network that are exchanged in turns under ``every``
windows              the engine's side of both: steps of trees, then an exchange of weights
local_training       the worker's side of both: replicas with weights of their own
weight_exchange      how their weights are averaged
difference_exchange  the same where they travel as coded differences
difference_coding    how these are coded, and what becomes of what they leave out
secure_aggregation   the same where they travel masked, so that the server learns their sum alone
outer                the outer optimizer, which updates with the mean difference
asynchronous         ``async``: a parameter server, and trees that train at their own pace
relay                no training: a node's side of a hand-over between phases
dispatch             dispatches the steps of trees and collects them
dilation             increases the dilation if this machine cannot keep up
"""
