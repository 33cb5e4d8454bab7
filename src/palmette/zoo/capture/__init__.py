"""Any ``nn.Module`` as consecutive layers that can run on different nodes.

layer           what a layer is, and the state of consecutive layers by its original names
bundle          the tensors that pass between layers
cutting         ``cut``: all steps in order, and the check that the layers compute what the module computes
sequential      an ``nn.Sequential`` cut between its children
wrapper         a module as the tracers see it, or as one layer
tracing         one graph of what a module's forward does
parametrized    modules whose weights are computed from others, so that they can be sent
transformers    those of torch.nn as sequences of their layers
regions         parts of a forward under no_grad or autocast
modes           merges the graphs of training and evaluation into one
operations      what the operations of such a graph are
sizes           sizes as functions of the number of samples and of lengths
graph_analysis  which of its values must be passed on, and which can be recomputed
cut_places      where the graph is cut
segments        the parts between cuts, merged and named
build_module    a segment as a module of its own
trial_runs      runs that leave the module as it was
"""

from palmette.zoo.capture.bundle import LayerChain, TensorSpec, as_bundle
from palmette.zoo.capture.cutting import cut
from palmette.zoo.capture.layer import NetworkLayer, TiedWeight, load_state, notes, parameters, state, tied_weights

__all__ = [
    "LayerChain",
    "NetworkLayer",
    "TensorSpec",
    "TiedWeight",
    "as_bundle",
    "cut",
    "load_state",
    "notes",
    "parameters",
    "state",
    "tied_weights",
]
