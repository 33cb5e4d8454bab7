"""Programs are pure, complete, and could be carried out in the order in which they stand."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import iteration
from palmette.cost.steps import Iteration
from palmette.runtime.program import Program, compile_programs, feeds, positions, slices
from palmette.spec.plan import Phase
from tests.cost.random_trees import random_case
from tests.cost.small import cluster, instance, link, node, phase, profile, source, times

SEEDS = range(100)


def programs_of(seed: int) -> tuple[Phase, Iteration, dict[str, Program]]:
    tree, known, nodes = random_case(seed)
    prices = Evaluator(known, nodes)
    made = iteration(tree, prices.sizes(), prices.routes)
    return tree, made, compile_programs(tree, made)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_send_meets_one_receive(seed: int) -> None:
    _, _, programs = programs_of(seed)
    sends = [(o.channel, o.number, o.what) for p in programs.values() for o in p.operations if o.op == "send"]
    receives = [(o.channel, o.number, o.what) for p in programs.values() for o in p.operations if o.op == "receive"]
    assert Counter(sends) == Counter(receives)
    assert len({channel for channel, _, _ in sends}) == len(sends)
    for name, program in programs.items():
        for operation in program.operations:
            if operation.channel is not None:
                assert name == (operation.channel.sender if operation.op == "send" else operation.channel.receiver)
                assert operation.channel.sender != operation.channel.receiver


@pytest.mark.parametrize("seed", SEEDS)
def test_programs_hold_the_operations_that_the_clock_plays(seed: int) -> None:
    tree, made, programs = programs_of(seed)
    expected: Counter[tuple[str, str, int]] = Counter()
    for number, step in enumerate(made.steps):
        if step.to is None:
            expected[step.node, step.kind.value, number] += 1
        else:
            expected[step.node, "send", number] += 1
            expected[step.to, "receive", number] += 1
    found = Counter((name, o.op, o.number) for name, p in programs.items() for o in p.operations)
    assert found == expected
    assert list(programs) == tree.nodes()


@pytest.mark.parametrize("seed", SEEDS)
def test_one_by_one_in_their_order_the_programs_end(seed: int) -> None:
    """Each node does one thing at a time, strictly in the order of its list: nobody waits forever."""
    _, _, programs = programs_of(seed)
    at = dict.fromkeys(programs, 0)
    done: set[tuple[str, int]] = set()
    sent: set[int] = set()
    moved = True
    while moved:
        moved = False
        for name, program in programs.items():
            while at[name] < len(program.operations):
                operation = program.operations[at[name]]
                if operation.op == "receive" and operation.number not in sent:
                    break
                assert all((name, need) in done for need in operation.after), "the order is not one"
                if operation.op == "send":
                    sent.add(operation.number)
                done.add((name, operation.number))
                at[name] += 1
                moved = True
    assert all(at[name] == len(program.operations) for name, program in programs.items())


@pytest.mark.parametrize("seed", SEEDS)
def test_operations_come_after_all_that_the_clock_lets_them_wait_for(seed: int) -> None:
    _, made, programs = programs_of(seed)
    for name, program in programs.items():
        own = {operation.number for operation in program.operations}
        for operation in program.operations:
            needs = set(made.steps[operation.number].after)
            if operation.op == "receive":
                assert operation.after == ()
            else:
                assert set(operation.after) == needs
                assert needs <= own, f"{name} cannot know when {needs - own} are done"


@pytest.mark.parametrize("seed", SEEDS)
def test_each_sample_of_the_batch_reaches_one_instance_of_each_layer(seed: int) -> None:
    tree, _, _ = programs_of(seed)
    placed = positions(tree)
    for layer in range(1, tree.depth + 1):
        holders = [k for k, i in enumerate(tree.instances) if i.layers[0] <= layer <= i.layers[1]]
        assert sorted(place for k in holders for place in placed[k]) == list(range(tree.batch))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_input_of_an_instance_is_what_feeds_it_in_order(seed: int) -> None:
    tree, _, _ = programs_of(seed)
    placed, parts = positions(tree), slices(tree)
    for k, fed in enumerate(feeds(tree)):
        expected = [place for s in fed.sources for place in range(*parts[s])]
        expected += [place for child in fed.instances for place in placed[child]]
        assert placed[k] == expected


def small() -> dict[str, Program]:
    tree = phase(
        source("phone", 4, "S"),
        source("phone", 2, "O"),
        instance("S", 1, 1, "phone", "O2"),
        instance("O", 1, 1, "server", "O2"),
        instance("O2", 2, 2, "server"),
    )
    prices = Evaluator(
        profile([(8, 4), (8, 4)], phone=times(2), server=times(2)),
        cluster(link("phone", "server"), phone=node(10), server=node()),
    )
    return compile_programs(tree, iteration(tree, prices.sizes(), prices.routes))


def test_the_printed_program_reads_like_a_list_of_things_to_do() -> None:
    assert str(small()["phone"]).splitlines() == [
        "   0  send      data to server (channel 0)  [O]",
        "   1  forward   [S]",
        "   2  send      output to server (channel 1)  after 1  [S]",
        "   7  receive   gradient from server (channel 2)  [S]",
        "   8  backward  after 7  [S]",
        "   9  send      push to server (channel 3)  layers 1–1  after 8  [S]",
        "  11  receive   pull from server (channel 4)  layers 1–1  [S]",
        "  12  update    layers 1–1  after 8, 11  [S]",
    ]


def test_programs_are_made_without_torch() -> None:
    code = (
        "import sys, palmette.runtime, palmette.runtime.program, palmette.cli.program\n"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
