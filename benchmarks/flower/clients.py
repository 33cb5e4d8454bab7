"""Three clients behind routers with narrow links, and what is watched while they train: rounds and bytes.

phone ── NAT ── 10/20 Mbit/s ──┐
tablet ─ NAT ── 10/20 Mbit/s ──┼── this machine, where the weights are averaged
laptop ─ NAT ── 10/20 Mbit/s ──┘
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, Self

from benchmarks.home_networks import HomeNetwork

CLIENTS = ("phone", "tablet", "laptop")
KILLED = CLIENTS[0]
UP_MBIT, DOWN_MBIT = 10.0, 20.0
BATCH, LR, SAMPLES = 16, 0.05, 500
_FIRST_NETWORK = 30
_LOOK_EVERY_S = 0.02
_ENDS_S = 20.0


class Homes:
    """The networks of the clients."""

    def __init__(self) -> None:
        self.of = {
            name: HomeNetwork(_FIRST_NETWORK + number, UP_MBIT, DOWN_MBIT) for number, name in enumerate(CLIENTS)
        }
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            for each in self.of.values():
                self._stack.enter_context(each)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def carried_bytes(self) -> int:
        """Bytes on the cables of all clients, both ways, with all headers."""
        return sum(each.carried_bytes() for each in self.of.values())


class Processes:
    """Processes with children of their own, each in a session, so that all of it can be killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.of: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, words: Sequence[str], environment: Mapping[str, str], where: str | None = None) -> None:
        """Start a process, in a network namespace if one is named; what it says goes to a file."""
        inside = [] if where is None else ["ip", "netns", "exec", where]
        with (self._folder / f"{name}.log").open("ab") as log:
            self.of[name] = subprocess.Popen(
                [*inside, *words], stdout=log, stderr=log, env=os.environ | environment, start_new_session=True
            )

    def kill(self, name: str) -> None:
        """Kill a process and its children."""
        self._signal(name, signal.SIGKILL)
        self.of[name].wait()

    def end(self) -> None:
        """Ask all to end, and kill those that do not."""
        for name in self.of:
            self._signal(name, signal.SIGTERM)
        until_s = time.monotonic() + _ENDS_S
        for process in self.of.values():
            try:
                process.wait(max(0.0, until_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                continue
        for name in self.of:
            self.kill(name)

    def _signal(self, name: str, number: int) -> None:
        try:
            os.killpg(self.of[name].pid, number)
        except ProcessLookupError:
            return  # it has ended


class Side(Protocol):
    """A way to train by federated averaging; made anew for each turn."""

    def start(self) -> None:
        """Start server, clients and training."""
        ...

    def new_rounds(self) -> list[int]:
        """How many clients took part in each round that was done since the last time."""
        ...

    def start_client(self, name: str) -> None:
        """Start a client."""
        ...

    def kill_client(self, name: str) -> None:
        """Kill a client without a word."""
        ...

    def end(self) -> None:
        """End everything."""
        ...


@dataclass(frozen=True)
class Round:
    """A round that is done: when it was noticed, who took part, and how many bytes the cables have carried by then."""

    at_s: float
    clients: int
    carried_bytes: int


class Watched:
    """One turn of a side, and the rounds that were seen."""

    def __init__(self, side: Side, homes: Homes, patience_s: float) -> None:
        self._side, self._homes, self._patience_s = side, homes, patience_s
        self._rounds: list[Round] = []

    def turn(self, rounds: int, away_s: float) -> dict[str, Any]:
        """Train so many rounds, kill a client, start it again after ``away_s``, and wait until all are back."""
        began_s, before_bytes = time.monotonic(), self._homes.carried_bytes()
        self._side.start()
        try:
            self._until(lambda: len(self._rounds) >= rounds, "the first rounds")
            steady, killed_s = list(self._rounds), time.monotonic()
            self._side.kill_client(KILLED)
            self._until(lambda: len(self._rounds) > len(steady), "a round after the kill")
            next_s = self._rounds[len(steady)].at_s
            self._until(lambda: time.monotonic() > killed_s + away_s, "the client's return")
            back, back_s = len(self._rounds), time.monotonic()
            self._side.start_client(KILLED)
            self._until(lambda: any(each.clients == len(CLIENTS) for each in self._rounds[back:]), "all clients")
            whole_s = self._rounds[-1].at_s
        finally:
            self._side.end()
        return {
            "first_round_s": round(steady[0].at_s - began_s, 2),
            "first_round_bytes": steady[0].carried_bytes - before_bytes,
            "round_s": [round(each, 3) for each in _differences([each.at_s for each in steady])],
            "round_bytes": _differences([each.carried_bytes for each in steady]),
            "after_a_kill_s": round(next_s - killed_s, 2),
            "all_back_s": round(whole_s - back_s, 2),
        }

    def _until(self, true: Callable[[], bool], what: str) -> None:
        until_s = time.monotonic() + self._patience_s
        while not true():
            if time.monotonic() > until_s:
                done = f"{len(self._rounds)} rounds were done"
                raise TimeoutError(f"{what}: not within {self._patience_s:.0f} s; {done}")
            time.sleep(_LOOK_EVERY_S)
            for clients in self._side.new_rounds():
                self._rounds.append(Round(time.monotonic(), clients, self._homes.carried_bytes()))


def _differences(values: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(values)]
