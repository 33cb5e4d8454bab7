"""How replicas are synchronized: one file for each kind of ``sync``, with the worker's and the engine's side of it.

Read ``base`` first, then ``step``. A new kind is one file and one row in ``registry``.

base             the interface: a sync method and its two sides
registry         the sync methods by name
step             ``step``: gradients are averaged in every iteration, or once an update
update_schedule  when that is, where gradients accumulate
epoch            ``epoch``: federated averaging, weights are averaged after every epoch
asynchronous     ``async``: a parameter server, and trees that train at their own pace
relay            no training: a node's side of a hand-over between phases
dispatch         dispatches the steps of trees and collects them
dilation         increases the dilation if this machine cannot keep up
"""
