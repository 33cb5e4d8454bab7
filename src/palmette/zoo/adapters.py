"""LoRA adapters: small matrices beside frozen weights, of which only the adapters are trained.

``peft`` puts them into the modules that ``--lora`` names, where it is installed. From then on they are weights like any
others, and the network's own are frozen as those of a module that has frozen them itself: a recipe whose model already
has adapters is the same to everything else. A network's name carries its adapters, so that plans, other hosts and
resumed runs build the same one: ``training:recipe?lora=q_proj,v_proj&rank=8``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from palmette.errors import ArgumentFault, InputError, expected_name, one_line

RANK = 8
# The factor of an adapter's output is this; peft divides it by the rank.
ALPHA_PER_RANK = 2


@dataclass(frozen=True)
class Adapters:
    """The modules that get adapters, by their names or the ends of them, and the rank of the adapters.

    Raises:
        InputError: there is no module, or the rank is no whole number of 1 or more.
    """

    targets: tuple[str, ...]
    rank: int = RANK

    def __post_init__(self) -> None:
        wrong = []
        if not self.targets or not all(target and not set(target) & set("?&=, ") for target in self.targets):
            expected = "expected names of modules with commas between them, such as q_proj,v_proj"
            wrong.append(ArgumentFault("lora", ",".join(self.targets), expected))
        if isinstance(self.rank, bool) or not isinstance(self.rank, int) or self.rank < 1:
            wrong.append(ArgumentFault("rank", self.rank, "expected a whole number of 1 or more"))
        if wrong:
            raise InputError(wrong)

    def named(self, model: str) -> str:
        """The name of a network with these adapters."""
        return f"{model}{'&' if '?' in model else '?'}lora={','.join(self.targets)}&rank={self.rank}"


def requested_adapters(lora: str | Sequence[str] | None, rank: int | None) -> Adapters | None:
    """The adapters that arguments describe; None where there are none.

    Raises:
        InputError: they cannot be used, or there is a rank without modules.
    """
    if lora is None:
        if rank is not None:
            raise InputError(ArgumentFault("rank", rank, "is that of adapters; expected lora, too"))
        return None
    words = lora.split(",") if isinstance(lora, str) else lora
    return Adapters(tuple(word.strip() for word in words), RANK if rank is None else rank)


def split_adapters(name: str) -> tuple[str, Adapters | None]:
    """A network's name without its adapters, and the adapters.

    Raises:
        InputError: they cannot be used.
    """
    base, _, query = name.partition("?")
    parts = [part.partition("=") for part in query.split("&") if part]
    known = {key: value for key, _, value in parts if key in ("lora", "rank")}
    others = "&".join("".join(part) for part in parts if part[0] not in known)
    if not known:
        return name, None
    rank = known.get("rank", str(RANK))
    found = Adapters(tuple(known.get("lora", "").split(",")), int(rank) if rank.isdecimal() else -1)
    return f"{base}?{others}" if others else base, found


def same_adapters(named: Adapters | None, given: Adapters | None, model: str) -> Adapters | None:
    """The adapters of a network, which its name or an argument says, or both alike.

    Raises:
        InputError: the two differ.
    """
    if given is not None and named is not None and given != named:
        expected = f"{model} has others; expected the same, or none"
        raise InputError(ArgumentFault("lora", f"{','.join(given.targets)} of rank {given.rank}", expected))
    return named or given


def add_adapters(module: nn.Module, adapters: Adapters) -> None:
    """Put adapters into a module, at random as torch's state says, and freeze everything else.

    Raises:
        InputError: peft is missing, a name matches no module, or peft cannot adapt one.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        expected = "adapters need peft; install it: pip install peft"
        raise InputError(ArgumentFault("lora", ",".join(adapters.targets), expected)) from None
    _refuse_unmatched(module, adapters)
    config = LoraConfig(
        r=adapters.rank, lora_alpha=ALPHA_PER_RANK * adapters.rank, target_modules=list(adapters.targets)
    )
    try:
        with warnings.catch_warnings():  # peft finds out how a module keeps its weight, and says so
            warnings.filterwarnings("ignore", "fan_in_fan_out")
            inject_adapter_in_model(config, module)
    except (ValueError, TypeError, NotImplementedError) as error:
        expected = f"peft cannot adapt it: {one_line(str(error).partition('. ')[0])}"
        raise InputError(ArgumentFault("lora", ",".join(adapters.targets), expected)) from None


def _refuse_unmatched(module: nn.Module, adapters: Adapters) -> None:
    """Refuse names that match no module with a matrix; as in peft by the whole name, or by its end after a dot."""
    matrices = [name for name, part in module.named_modules() if name and _has_matrix(part)]
    known = list(dict.fromkeys([*(name.rpartition(".")[2] for name in matrices), *matrices]))
    wrong = [
        ArgumentFault("lora", target, expected_name(target, "module with weights", known))
        for target in adapters.targets
        if not any(name == target or name.endswith(f".{target}") for name in matrices)
    ]
    if wrong:
        raise InputError(wrong)


def _has_matrix(module: nn.Module) -> bool:
    return any(weight.dim() > 1 for weight in module.parameters(recurse=False))
