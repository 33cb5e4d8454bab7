"""Any ``nn.Module`` as consecutive layers that can run on different nodes.

layer        what a layer is, and the state of a run of layers by its original names
cutting      ``cut``: the way through all of this, and the proof that layers do what the module does
sequential   an ``nn.Sequential`` cut between its children
frame        a module as the tracers see it
tracing      one graph of what a module's forward does
modes        that graph made true in training and in evaluation alike
operations   what the operations of such a graph are
anatomy      which of its values have to be handed on, and which can be made anew
segments     the graph cut where one tensor is alive
assembly     a segment as a module of its own
probing      runs that leave no mark on the module
"""

from palmette.zoo.capture.cutting import cut
from palmette.zoo.capture.layer import Layer, load_state, parameters, state

__all__ = ["Layer", "cut", "load_state", "parameters", "state"]
