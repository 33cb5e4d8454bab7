# ruff: noqa: SLF001 (torch has no public door to an operation's schema)
"""What the operations of a traced graph are: which are small, which are sizes, which can be recomputed.

A node calls a function, a method or a module, and ``torch.export`` has names of its own for all of them;
here each operation has one name (``relu`` for ``nn.ReLU``, ``F.relu``, ``x.relu_()``, ``aten.relu``).
"""

from __future__ import annotations

from collections.abc import Container

from torch import fx, nn
from torch._ops import OpOverload
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from palmette.zoo.capture.modes import ModeOperation, ModeValue
from palmette.zoo.capture.regions import AutocastRegion
from palmette.zoo.capture.wrapper import ModuleWrapper, attribute_at


def names(*lines: str) -> frozenset[str]:
    """All names in some lines."""
    return frozenset(" ".join(lines).split())


ACTIVATIONS = names(
    "relu relu6 leaky_relu elu selu celu gelu silu mish hardswish hardsigmoid hardtanh sigmoid logsigmoid",
    "log_sigmoid tanh softplus softsign tanhshrink softshrink hardshrink threshold softmax log_softmax glu",
    "clamp clip exp log sqrt rsqrt abs neg square pow add sub rsub mul div truediv",
    "rand_like randn_like zeros_like ones_like",
)
DROPOUTS = names("dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout")
SHAPES = names(
    "flatten unflatten reshape view view_as permute transpose t swapaxes swapdims movedim squeeze unsqueeze",
    "expand expand_as contiguous getitem getattr select slice narrow to float double type_as alias clone detach",
)
SMALL = ACTIVATIONS | DROPOUTS | SHAPES
SMALL_MODULES = ("torch.nn.modules.activation", "torch.nn.modules.dropout", "torch.nn.modules.flatten")
MATRICES = names("linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution")
LOOKUPS = names("size dim ndimension numel nelement sym_size sym_numel len")
IN_PLACE = names("setitem iadd isub imul itruediv ifloordiv imod ipow iand ior ixor imatmul")
RANDOM = names("bernoulli multinomial normal") | DROPOUTS


def call_target(node: fx.Node, wrapper: ModuleWrapper) -> object:
    """The function, the method's name or the module that a node calls."""
    if node.op != "call_module":
        return node.target
    module = attribute_at(wrapper, str(node.target))
    return module.operation if isinstance(module, ModeOperation) else module


def operation(node: fx.Node, wrapper: ModuleWrapper) -> str:
    """The name of the node's operation, ``module`` for a module that stays whole."""
    target = call_target(node, wrapper)
    return "module" if isinstance(target, nn.Module) else operation_name(target)


def operation_name(target: object) -> str:
    """The plain name of a function or method."""
    if isinstance(target, OpOverload):
        target = target._schema.name.partition("::")[2]
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    return name.strip("_")


def is_small(node: fx.Node, wrapper: ModuleWrapper) -> bool:
    """Whether this is an activation, dropout, reshaping, or elementwise arithmetic."""
    target = call_target(node, wrapper)
    if not isinstance(target, nn.Module):
        return operation_name(target) in SMALL
    if isinstance(target, (nn.Identity, ModeValue)):
        return True
    return type(target).__module__ in SMALL_MODULES and next(target.parameters(), None) is None


def is_batch_norm(node: fx.Node, wrapper: ModuleWrapper) -> bool:
    """Whether this is a batch norm of any dimension."""
    target = call_target(node, wrapper)
    if isinstance(target, nn.Module):
        return isinstance(target, _BatchNorm)
    return operation_name(target) == "batch_norm"


def is_matrix(node: fx.Node, wrapper: ModuleWrapper) -> bool:
    """Whether this is a convolution or a fully connected layer."""
    target = call_target(node, wrapper)
    if isinstance(target, nn.Module):
        return isinstance(target, (_ConvNd, nn.Linear))
    return operation_name(target) in MATRICES


def is_size(node: fx.Node, sizes: Container[fx.Node]) -> bool:
    """Whether the node looks up the size of a tensor, or computes with nothing but such sizes."""
    if node.op not in ("call_function", "call_method"):
        return False
    name = operation_name(node.target)
    if name in LOOKUPS or (name == "getattr" and node.args[1] in ("shape", "ndim")):
        return True
    return bool(node.all_input_nodes) and all(each in sizes for each in node.all_input_nodes)


def is_recomputable(node: fx.Node, wrapper: ModuleWrapper) -> bool:
    """Whether executing the node again gives the same value and has no side effect."""
    if node.op == "call_module":
        region = attribute_at(wrapper, str(node.target))
        if not isinstance(region, AutocastRegion):
            return False
        inside = [each for each in region.part.graph.nodes if each.op not in ("placeholder", "output", "get_attr")]
        return all(is_recomputable(each, wrapper) for each in inside)
    if node.op not in ("call_function", "call_method"):
        return False
    name = operation_name(node.target)
    return not (name in RANDOM or name.startswith("rand") or writes(node.target))


def writes(target: object) -> bool:
    """Whether a function or method changes a tensor that it is given."""
    if isinstance(target, OpOverload):
        # The constants of an exported graph are detached in place, which changes nothing in them.
        return target._schema.is_mutable and operation_name(target) != "detach"
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    return name in IN_PLACE or (name.endswith("_") and not name.endswith("__"))
