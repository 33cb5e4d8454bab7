"""What the owner of a worker or a hub allows: networks of the zoo and digits always, other code and data by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from palmette.errors import ArgumentFault, InputError, RunError
from palmette.zoo.adapters import split_adapters
from palmette.zoo.data.registry import find_entry


@dataclass(frozen=True)
class AllowedNames:
    """``code`` are names like ``package.module:name``; ``data`` says by a run's name of data what it is here.

    ``command`` is the one with which the owner allows more.
    """

    code: frozenset[str] = frozenset()
    data: Mapping[str, str] = field(default_factory=dict)
    command: str = "worker"

    def refuse_code(self, name: str | None) -> None:
        """Refuse to import what is not allowed; names of the zoo, and None, need no permission.

        Raises:
            RunError: says how its owner allows it.
        """
        if name is None:
            return
        plain, _ = split_adapters(name)
        if ":" in plain and plain not in self.code:
            raise RunError(f"{plain} is not allowed here; its owner may: palmette {self.command} --allow {plain}")

    def data_here(self, name: str) -> str:
        """What a run's data is called on this machine.

        Raises:
            RunError: it is not allowed; says how its owner allows it.
        """
        if name in self.data:
            return self.data[name]
        entry, _ = find_entry(name)
        if entry is None and name in self.code:
            return name
        if entry is not None and entry.argument is None:
            return name
        expected = f"its owner may: palmette {self.command} --data '{name}=WHERE IT IS'"
        raise RunError(f"data {name} is not allowed here; {expected}")


def allowed_names(code: Sequence[str], data: Sequence[str]) -> AllowedNames:
    """What the words of a command line allow: names of code, and ``NAME=WHAT`` or just ``WHAT`` for data.

    Raises:
        InputError: a word is neither.
    """
    wrong = [ArgumentFault("allow", name, "expected package.module:name") for name in code if not _is_code(name)]
    expected = "expected NAME=WHAT, such as photos=folder:/srv/photos"
    wrong += [ArgumentFault("data", word, expected) for word in data if not all(_named(word))]
    if wrong:
        raise InputError(wrong)
    return AllowedNames(frozenset(code), dict(_named(word) for word in data))


def _named(word: str) -> tuple[str, str]:
    """``photos=folder:/srv/photos``; an equals sign behind a question mark belongs to the data's own options."""
    name, equals, what = word.partition("=")
    return (name, what) if equals and "?" not in name else (word, word)


def _is_code(name: str) -> bool:
    module, _, attribute = name.partition(":")
    return all(part.isidentifier() for part in [*module.split("."), attribute])
