"""``palmette init``: a few questions, and a cluster file to start from."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from palmette.errors import Fault, InputError
from palmette.spec.files import write_text
from palmette.zoo.cluster_template import ClusterTemplate, find_faults, render_cluster

TIERS = ("device", "edge", "cloud")
STDIN = "stdin"
QUESTIONS = {
    "devices": "How many devices (phones, boards) take part",
    "edges": "How many edge servers",
    "clouds": "How many cloud servers",
    "device_hardware": "What is a device (palmette hardware lists what is known)",
    "edge_hardware": "What is an edge server",
    "cloud_hardware": "What is a cloud server",
    "bandwidth": "How fast are the links near the devices",
    "cloud_bandwidth": "How fast are the links to the cloud",
    "samples": "How many training samples does each device own",
    "private": "Must raw data stay where it is",
}


def start(file: Path, given: Mapping[str, Any], local: str | None, *, ask: bool, force: bool) -> None:
    """Write a cluster file of what was given and, where ``ask``, of the answers to the other questions.

    Raises:
        InputError: an answer cannot be used, or the file is there already.
    """
    if file.exists() and not force:
        raise InputError(Fault("", "the file", "is there already; expected another name, or --force", str(file)))
    write_text(file, render_cluster(replace(_template(_answers(given, ask)), local=local)))
    print(f"{file}: written. Next: palmette profile lenet5 --cluster {file} -o profile.json")


def _answers(given: Mapping[str, Any], ask: bool) -> dict[str, Any]:
    usual = ClusterTemplate()
    answers = {f"{tier}s": usual.counts[tier] for tier in TIERS} | {
        f"{tier}_hardware": usual.hardware[tier] for tier in TIERS
    }
    answers |= {name: getattr(usual, name) for name in ("bandwidth", "cloud_bandwidth", "samples", "private")}
    for name, question in QUESTIONS.items():
        if given.get(name) is not None:
            answers[name] = given[name]
        elif ask and _matters(name, answers):
            answers[name] = _usable(name, question, answers)
    return answers


def _template(answers: Mapping[str, Any]) -> ClusterTemplate:
    return ClusterTemplate(
        counts={tier: answers[f"{tier}s"] for tier in TIERS},
        hardware={tier: answers[f"{tier}_hardware"] for tier in TIERS},
        bandwidth=answers["bandwidth"],
        cloud_bandwidth=answers["cloud_bandwidth"],
        samples=answers["samples"],
        private=answers["private"],
    )


def _usable(name: str, question: str, answers: Mapping[str, Any]) -> Any:
    """An answer that can be used: on a terminal the question is asked until there is one."""
    option = "--" + name.replace("_", "-")
    while True:
        try:
            answer = _asked(question, answers[name])
            faults = [
                fault
                for fault in find_faults(_template({**answers, name: answer}))
                if option in fault.field.split(", ")
            ]
            if not faults:
                return answer
            raise InputError(faults)
        except InputError as error:
            if not sys.stdin.isatty() or error.faults[0].field == STDIN:
                raise
            print(f"palmette: {error}", file=sys.stderr)


def _matters(name: str, answers: Mapping[str, Any]) -> bool:
    """Whether a question is worth asking after the answers so far."""
    tier = name.removesuffix("_hardware")
    if tier != name:
        return bool(answers[f"{tier}s"])
    if name == "cloud_bandwidth":
        return bool(answers["clouds"])
    return True


def _asked(question: str, usual: Any) -> Any:
    """An answer of the same kind as the usual one, which an empty line stands for."""
    shown = {True: "yes", False: "no"}[usual] if isinstance(usual, bool) else usual
    print(f"{question}? [{shown}] ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        print(file=sys.stderr)
        raise InputError(Fault(STDIN, "its end", f"expected an answer to: {question}? Or say --yes"))
    text = line.strip()
    if not text:
        return usual
    if isinstance(usual, bool):
        if text.lower() not in ("y", "yes", "n", "no"):
            raise InputError(Fault(question, text, "expected yes or no"))
        return text.lower().startswith("y")
    if isinstance(usual, int):
        if not text.isdecimal():
            raise InputError(Fault(question, text, "expected a whole number"))
        return int(text)
    return text
