"""How samples travel and what that costs: as stored, once, and ahead; worked out by hand."""

import math
import random

import pytest

from palmette.cost.check import check
from palmette.cost.delivery import (
    KEPT_RECORD_BYTES,
    WAITING_RECORD_BYTES,
    first_fractions,
    kept_bytes,
    later_fractions,
)
from palmette.cost.estimate import summary
from palmette.cost.evaluate import Evaluator, Price
from palmette.cost.prepared import MARKS, repeated
from palmette.cost.steps import Kind
from palmette.spec.cluster import Cluster
from palmette.spec.plan import USUAL_AHEAD, Phase
from palmette.spec.profile import Profile
from tests.cost.random_trees import random_phase
from tests.cost.small import Fields, cluster, instance, link, node, phase, plan, price, profile, source, times
from tests.plan.random_problems import random_world

STEP_S = 1 + 2 + 0.5  # forward, backward and update of one sample


def pair(bps: float = 8.0, **owner: object) -> Cluster:
    """A node ``a`` that owns 12 samples, and ``b``, which computes."""
    return cluster(link("a", "b", bps), a=node(12, power=(1.0, 1.0)) | owner, b=node(power=(1.0, 3.0)))


def network(**more: float) -> Profile:
    """One layer; an input of 4 bytes."""
    return profile([(1.0, 1.0)], 4.0, b=times(1)).model_copy(update=more)


def upload(samples: int = 1, *, ahead: bool = False, **feed: object) -> Phase:
    return phase(source("a", samples, "I", **feed), instance("I", 1, 1, "b"), ahead=ahead)


class TestAsStored:
    def test_a_sample_is_as_large_as_the_tensor_where_nobody_says_otherwise(self) -> None:
        assert price(pair(), network(), upload()).iteration_s == 4 + STEP_S

    def test_the_profile_may_say_how_large_a_stored_sample_is(self) -> None:
        assert price(pair(), network(sample_bytes=2.0), upload()).iteration_s == 2 + STEP_S

    def test_the_cluster_says_it_for_each_source(self) -> None:
        owner = {"source": {"samples": 12, "sample_bytes": 1.0}}
        assert price(pair(**owner), network(sample_bytes=2.0), upload()).iteration_s == 1 + STEP_S

    def test_as_a_tensor_it_is_as_large_as_the_input(self) -> None:
        tensor = upload().model_copy(update={"input_as": "tensor"})
        assert price(pair(), network(sample_bytes=2.0), tensor).iteration_s == 4 + STEP_S


class TestOnce:
    def test_only_the_first_epoch_waits_for_samples(self) -> None:
        found = price(pair(), network(), upload(delivery="once"))
        assert (found.iteration_s, found.epoch.time_s) == (STEP_S, 12 * STEP_S)
        assert (found.first_iteration_s, found.first_epoch.time_s) == (4 + STEP_S, 12 * (4 + STEP_S))
        assert (found.epoch.sent_bytes, found.first_epoch.sent_bytes) == (0, 48)

    def test_the_whole_is_an_upload_and_all_epochs(self) -> None:
        found = summary(plan(upload(delivery="once")), Evaluator(network(), pair()), epochs=5)
        assert found.total_s == 48 + 5 * 12 * STEP_S
        assert found.total_bytes == 48
        # Both nodes idle at 1 W all the time, and b draws 2 W more while it computes.
        assert found.total_j == 2 * found.total_s + 2 * 5 * 12 * STEP_S

    def test_it_costs_what_each_does_where_nothing_travels(self) -> None:
        alone = phase(source("a", 1, "I", delivery="once"), instance("I", 1, 1, "a"))
        found = price(pair(), profile([(1.0, 1.0)], 4.0, a=times(1)), alone)
        assert found.first_epoch is found.epoch

    def test_a_later_phase_finds_what_an_earlier_one_has_sent(self) -> None:
        first = upload(delivery="once").model_copy(update={"epochs": 1})
        found = summary(plan(first, first.model_copy(update={"epochs": 2})), Evaluator(network(), pair()))
        assert found.total_s == 48 + 3 * 12 * STEP_S

    def test_a_stream_cannot_be_kept(self) -> None:
        camera = pair(source={"samples": 12, "stream": True})
        (fault,) = check(plan(upload(delivery="once")), Evaluator(network(), camera))
        assert fault.field == "phases[0].sources[0].delivery"
        assert "always new" in fault.expected
        assert not check(plan(upload()), Evaluator(network(), camera))

    @pytest.mark.parametrize(("kind", "field"), [("memory_bytes", "instances"), ("storage_bytes", "sources")])
    def test_what_is_kept_fits_the_node(self, kind: str, field: str) -> None:
        needed = 12 * (4.0 + KEPT_RECORD_BYTES)
        for size_bytes, fits in ((needed - 1, False), (needed + 10, True)):
            nodes = {"a": node(12), "b": node(**{kind: size_bytes})}
            found = check(plan(upload(delivery="once")), Evaluator(network(), cluster(link("a", "b"), **nodes)))
            assert [fault.field for fault in found] == ([] if fits else [f"phases[0].{field}"])

    def test_storage_is_not_memory(self) -> None:
        roomy = cluster(link("a", "b"), a=node(12), b=node(storage_bytes=1e3, memory_bytes=10.0))
        assert not check(plan(upload(delivery="once")), Evaluator(network(), roomy))


class TestAhead:
    def test_an_iteration_takes_the_longest_of_its_resources_work(self) -> None:
        for bytes_, expected in ((4.0, 4.0), (1.0, STEP_S)):
            found = price(pair(), network(sample_bytes=bytes_), upload(ahead=True))
            assert found.iteration_s == expected
            assert found.first_iteration_s == bytes_ + STEP_S
            assert found.first_epoch.time_s == bytes_ + STEP_S + 11 * expected

    def test_the_first_epoch_of_kept_samples_is_the_longer_of_upload_and_computing(self) -> None:
        found = price(pair(), network(), upload(delivery="once", ahead=True))
        assert found.first_epoch.time_s == 4 + STEP_S + 11 * 4
        assert found.epoch.time_s == 12 * STEP_S

    def test_the_samples_of_an_iteration_wait_in_memory(self) -> None:
        prices = Evaluator(network(), pair())
        waits = prices.peak_bytes(upload(3, ahead=True))["b"] - prices.peak_bytes(upload(3))["b"]
        assert waits == USUAL_AHEAD * (12 + 3 * WAITING_RECORD_BYTES)

    def test_fewer_iterations_ahead_take_less_memory(self) -> None:
        prices, deep = Evaluator(network(), pair()), upload(3, ahead=True)
        shallow = deep.model_copy(update={"ahead_iterations": 1})
        waits = prices.peak_bytes(deep)["b"] - prices.peak_bytes(shallow)["b"]
        assert waits == (USUAL_AHEAD - 1) * (12 + 3 * WAITING_RECORD_BYTES)

    def test_only_step_can_send_ahead(self) -> None:
        apart = upload(ahead=True).model_copy(update={"sync": "epoch"})
        (fault,) = check(plan(apart), Evaluator(network(), pair()))
        assert fault.field == "phases[0].ahead"

    @pytest.mark.parametrize("seed", range(30))
    def test_it_is_never_slower_and_never_faster_than_its_resources(self, seed: int) -> None:
        draw = random.Random(seed)
        world = cluster(
            link("a", "b", draw.choice([8.0, 20.0, 100.0]), duplex=draw.choice(["full", "half"])),
            link("b", "c", draw.choice([8.0, 20.0, 100.0])),
            a=node(100),
            b=node(),
            c=node(),
        )
        known = profile([(2.0, 3.0), (1.0, 1.0)], 9.0, a=times(2, 3.0), b=times(2), c=times(2, 0.2, 0.1))
        parts = split(draw)
        apart, overlapping = (phase(*parts, ahead=ahead) for ahead in (False, True))
        slow, fast = price(world, known, apart), price(world, known, overlapping)
        assert fast.iteration_s <= slow.iteration_s * (1 + 1e-9)
        busy_s = max(part.busy_s for part in fast.nodes.values())
        assert fast.iteration_s >= busy_s * (1 - 1e-9)
        # In the first iteration a source's next samples may share the link with another's first.
        assert fast.first_epoch.time_s <= slow.first_epoch.time_s + fast.iteration_s

    def test_a_link_that_carries_more_than_its_nodes_compute_is_what_all_wait_for(self) -> None:
        # Iterations in which samples come late and those in which they are there take turns: 9.5 s, 6.5 s, 9.5 s, …
        world = cluster(link("a", "b", 32.0), link("b", "c", 16.0), a=node(10), b=node(), c=node(10))
        known = profile([(0.0, 4.0), (0.0, 1.0)], 12.0, a=times(2, 0.5, 0.5), b=times(2), c=times(2, 0.5, 1.0, 0.0))
        parts = instance("R", 2, 2, "a"), instance("I", 1, 1, "c", "R"), instance("J", 1, 2, "c")
        tree = phase(source("a", 1, "I"), source("c", 1, "J"), *parts, ahead=True)
        a_sample_s, its_gradient_s = 12 / 2, 4 / 2  # from b to c, at 2 bytes/s
        assert price(world, known, tree).iteration_s == a_sample_s + its_gradient_s

    def test_iterations_that_take_turns_count_with_their_mean(self) -> None:
        # The gradients from a to b, for a second, delay the samples of every other iteration, or of two at once.
        world = cluster(link("a", "b", 16.0), a=node(10), b=node())
        known = profile([(0.0, 4.0), (2.0, 2.0)], 12.0, a=times(2, 2, 0, 0), b=times(2, 0.5, 0, 0))
        parts = instance("R", 2, 2, "b"), instance("I", 1, 1, "b", "R"), instance("J", 1, 2, "a")
        tree = phase(source("a", 1, "I"), source("a", 1, "J"), *parts, ahead=True, ahead_iterations=1)
        found = price(world, known, tree)
        assert (found.iteration_s, found.epoch.time_s) == (7, 5 * 7)
        assert found.first_epoch.time_s == 9 + 6 + 8 + 6 + 8

    def test_turns_of_three_of_which_two_are_alike_count_with_their_mean(self) -> None:
        world = cluster(link("a", "b", 16.0), a=node(10), b=node(10))
        known = profile([(2.0, 1.0), (1.0, 1.0)], 6.0, a=times(2, 0, 1, 0), b=times(2, 0.5, 0, 0))
        parts = instance("R", 2, 2, "a"), instance("I", 1, 1, "b", "R"), instance("J", 1, 2, "b")
        tree = phase(source("a", 1, "I"), source("b", 1, "J"), *parts, ahead=True, ahead_iterations=1)
        found = price(world, known, tree)
        assert found.iteration_s == (4.5 + 4.5 + 3) / 3
        assert found.first_epoch.time_s == 6 + 3 * (4.5 + 4.5 + 3)

    def test_an_epoch_takes_as_long_as_when_all_of_its_iterations_are_played(self) -> None:
        off: list[float] = []
        for seed in range(240, 300):
            known, world = random_world(random.Random(seed), nodes=3, layers=2, sources=3, fixed=seed % 2 == 0)
            tree, prices = random_ahead(random.Random(seed), world), WholeEpochs(known, world)
            found, played_s = prices.price(tree), prices.epochs_s(tree)
            off += [abs(found.first_epoch.time_s / played_s[0] - 1), abs(found.epoch.time_s / played_s[1] - 1)]
        assert sum(each > 1e-6 for each in off) <= 3  # turns of four or five
        assert max(off) < 0.02


def split(draw: random.Random) -> list[Fields]:
    """Branches on three nodes that meet on one of them."""
    root = draw.choice("abc")
    parts: list[Fields] = [instance("R", 2, 2, root)]
    for k in range(draw.randint(1, 3)):
        parts += [source("a", draw.randint(1, 4), f"I{k}"), instance(f"I{k}", 1, 1, draw.choice("abc"), "R")]
    return parts


def random_ahead(draw: random.Random, world: Cluster) -> Phase:
    """A random tree whose samples travel ahead."""
    return random_phase(draw, world, 2).model_copy(update={"ahead": True, "ahead_iterations": draw.choice([1, 2, 4])})


class WholeEpochs(Evaluator):
    """Plays all iterations of an epoch and many more."""

    MORE = 60

    def epochs_s(self, tree: Phase) -> tuple[float, float]:
        """Seconds of the first epoch, and of a later one in the mean, where every sample is sent each time."""
        made, one = self.whole_step(tree), self._prepared_for(tree)
        many = math.ceil(sum(self.epoch_samples(tree).values()) / tree.batch)
        all_ = many + self.MORE
        played = self._play(repeated(one, tree.ahead_iterations, all_), tree, made, all_)
        done_s = played.end_s[len(made.steps) + MARKS - 1 :: len(made.steps) + MARKS]
        routes = [self.route(step.node, step.to) for step in made.steps if step.kind is Kind.DATA and step.to]
        latency_s = max((route.latency_s for route in routes), default=0.0)
        first_s = done_s[0] + latency_s
        least_s = first_s / (tree.ahead_iterations + 1) if routes else 0.0  # what latency allows
        first_epoch_s = max(done_s[many - 1] + latency_s, first_s + (many - 1) * least_s)
        return first_epoch_s, many * max((done_s[-1] - done_s[many - 1]) / self.MORE, least_s)


class TestWhichSamplesComeBack:
    def test_one_branch_has_all_after_an_epoch(self) -> None:
        assert later_fractions(upload(4, delivery="once"), pair()) == [0.0]
        assert first_fractions(upload(4, delivery="once")) == [1.0]

    @pytest.mark.parametrize(("batch", "cut"), [(8, 4), (32, 10), (64, 60)])
    def test_several_branches_meet_as_many_new_samples_as_when_they_are_dealt(self, batch: int, cut: int) -> None:
        """The rule of the runtime, played with random batches."""
        draw, samples, passes = random.Random(0), 40 * batch, 10
        branches = phase(
            source("a", cut, "I", delivery="once"),
            source("a", batch - cut, "J", delivery="once"),
            instance("I", 1, 1, "b", "R"),
            instance("J", 1, 1, "c", "R"),
            instance("R", 2, 2, "b"),
        )
        world = cluster(link("a", "b"), link("a", "c"), a=node(samples), b=node(), c=node())
        had: set[int] = set()
        new = 0
        for number in range(passes):
            order = draw.sample(range(samples), samples)
            for k in range(0, samples, batch):
                given = sorted(order[k : k + batch])[:cut]
                new += len(set(given) - had) if number else 0
                had |= set(given)
        expected = new / (passes - 1) / (samples / batch * cut)
        assert later_fractions(branches, world)[0] == pytest.approx(expected, rel=0.15, abs=0.002)
        known = profile([(1.0, 1.0), (1.0, 1.0)], 1.0)
        assert kept_bytes(branches, world, Evaluator(known, world).sizes())["b"] >= len(had) * (1 + KEPT_RECORD_BYTES)

    def test_branches_on_one_node_find_what_it_keeps(self) -> None:
        halves = phase(
            source("a", 3, "I", delivery="once"),
            source("a", 5, "J", delivery="once"),
            instance("I", 1, 1, "b"),
            instance("J", 1, 1, "b"),
        )
        assert later_fractions(halves, pair()) == [0.0, 0.0]
        kept = kept_bytes(halves, pair(), Evaluator(network(), pair()).sizes())["b"]
        assert kept == pytest.approx(12 * (4 + KEPT_RECORD_BYTES))


def test_what_is_sent_is_counted_for_every_epoch() -> None:
    found: Price = price(pair(), network(), upload(delivery="each"))
    assert found.first_epoch is found.epoch
    assert found.epoch.sent_bytes == 48


class TestUploadForALaterPhase:
    """Train where the data is while it is uploaded, then where it has arrived."""

    def near(self, epochs: int = 4, **more: object) -> Phase:
        return phase(source("a", 1, "I"), instance("I", 1, 1, "a"), upload=["b"], epochs=epochs, **more)

    def known(self) -> Evaluator:
        return Evaluator(profile([(1.0, 1.0)], 4.0, a=times(1), b=times(1, 0.1, 0.1, 0.1)), pair())

    def test_an_iteration_uploads_its_share_in_the_background(self) -> None:
        found = self.known().price(self.near())
        assert found.iteration_s == STEP_S  # a byte in each of 48 iterations
        assert found.epoch.sent_bytes == 12
        assert self.known().price(self.near(1)).iteration_s == 4.0  # all of the data in twelve: the link decides

    def test_the_next_phase_finds_the_samples(self) -> None:
        then = upload(delivery="once", ahead=True).model_copy(update={"epochs": 6})
        found = summary(plan(self.near(), then), self.known())
        change_s = 2.0  # a byte of weights there, then nothing back: the phone is no longer part of it
        assert found.total_s == pytest.approx(48 * STEP_S + 6 * 12 * 0.3 + (found.changes_s or 0))
        assert found.changes_s is not None
        assert found.changes_s <= change_s
        assert found.total_bytes == 48

    def test_private_samples_streams_and_strangers_are_refused(self) -> None:
        for owner, expected in (({"private": True}, "private"), ({"stream": True}, "stream")):
            world = pair(source={"samples": 12, **owner})
            prices = Evaluator(profile([(1.0, 1.0)], 4.0, a=times(1)), world)
            (fault,) = check(plan(self.near()), prices)
            assert expected in fault.expected
        (fault,) = check(plan(self.near().model_copy(update={"upload": ("nobody",)})), self.known())
        assert fault.field == "phases[0].upload[0]"

    def test_what_is_uploaded_fits_the_node(self) -> None:
        small = cluster(link("a", "b"), a=node(12), b=node(storage_bytes=40.0))
        (fault,) = check(plan(self.near()), Evaluator(profile([(1.0, 1.0)], 4.0, a=times(1)), small))
        assert "storage of b" in fault.expected
