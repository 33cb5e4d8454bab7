"""A plan that cannot be carried out is told so, with the place in the plan and the reason."""

from __future__ import annotations

import pytest

from palmette.cost.check import check
from palmette.cost.evaluate import Evaluator
from palmette.errors import Fault
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from tests.cost.small import cluster, instance, link, node, phase, plan, profile, source, times

TWO = profile([(10.0, 1.0), (10.0, 1.0)], a=times(2), b=times(2))
PAIR = cluster(link("a", "b"), a=node(10), b=node())
WHOLE = [source("a", 2, "I"), instance("I", 1, 2, "a")]


def faults(made: Phase, on: Cluster = PAIR, known: Profile = TWO) -> list[Fault]:
    return check(plan(made, batch=made.batch), Evaluator(known, on))


def the_fault(made: Phase, on: Cluster = PAIR, known: Profile = TWO) -> Fault:
    (fault,) = faults(made, on, known)
    return fault


def test_a_plan_that_can_be_carried_out_has_no_faults() -> None:
    assert faults(phase(*WHOLE)) == []


def test_unknown_nodes_are_told_with_the_nearest_name() -> None:
    world = cluster(link("phone", "server"), phone=node(9), server=node())
    made = phase(source("phnoe", 2, "I"), instance("I", 1, 2, "servr"), sync="epoch", server="cloud")
    found = faults(made, world)
    assert [fault.field for fault in found] == [
        "phases[0].sources[0].node",
        "phases[0].instances[0].node",
        "phases[0].server",
    ]
    assert [fault.value for fault in found] == ["phnoe", "servr", "cloud"]
    assert "did you mean phone?" in found[0].expected
    assert "did you mean server?" in found[1].expected
    assert "phone, server" in found[2].expected


def test_the_last_instance_has_to_end_with_the_last_layer() -> None:
    fault = the_fault(phase(source("a", 2, "I"), instance("I", 1, 1, "a")))
    assert (fault.field, fault.value) == ("phases[0].instances", "layers up to 1")
    assert "2 layers" in fault.expected


def test_a_pruned_model_has_to_be_in_the_profile() -> None:
    fault = the_fault(phase(*WHOLE, pruning=0.5))
    assert (fault.field, fault.value) == ("phases[0].pruning", 0.5)


def test_nodes_without_times_cannot_compute() -> None:
    known = profile([(10.0, 1.0), (10.0, 1.0)], b=times(2))
    fault = the_fault(phase(*WHOLE), known=known)
    assert (fault.field, fault.value) == ("phases[0].instances[0].node", "a")
    assert "only for b" in fault.expected


def test_a_parameter_server_needs_times_and_one_that_averages_needs_none() -> None:
    known = profile([(10.0, 1.0), (10.0, 1.0)], a=times(2))
    assert the_fault(phase(*WHOLE, sync="async", server="b"), known=known).field == "phases[0].server"
    assert faults(phase(*WHOLE, sync="epoch", server="b"), known=known) == []


def test_data_comes_from_nodes_that_own_some() -> None:
    fault = the_fault(phase(source("b", 2, "I"), instance("I", 1, 2, "a")))
    assert (fault.field, fault.value) == ("phases[0].sources[0].node", "b")
    assert "owns no training data" in fault.expected


def test_an_epoch_takes_no_more_samples_than_there_are() -> None:
    made = phase(
        source("a", 1, "I", epoch_samples=6),
        source("a", 1, "J", epoch_samples=5),
        instance("I", 1, 2, "a"),
        instance("J", 1, 2, "a"),
    )
    fault = the_fault(made)
    assert (fault.field, fault.value) == ("phases[0].sources[1].epoch_samples", 5)
    assert "owns 10 samples" in fault.expected


def test_labels_that_are_private_too_keep_the_loss_where_they_are() -> None:
    rollback = cluster(link("a", "b"), a=node(10, private="labels"), b=node(10))
    cut = phase(source("a", 2, "I"), source("b", 2, "O"), instance("I", 1, 1, "a", "J"), *_joined("b"))
    fault = the_fault(cut, rollback)
    assert (fault.field, fault.value) == ("phases[0].sources[0].into", "loss computed by J on b")
    assert fault.expected == (
        "the source of a keeps its labels (private: labels); expected the last layer of its samples to run there"
    )
    assert faults(phase(*WHOLE), rollback) == []
    three = profile([(1.0, 1.0)] * 3, a=times(3), b=times(3))
    back = [instance("I", 1, 1, "a", "J"), instance("J", 2, 2, "b", "K"), instance("K", 3, 3, "a")]
    assert faults(phase(source("a", 2, "I"), *back), rollback, three) == []
    away = phase(source("a", 2, "I"), instance("I", 1, 2, "b"))
    assert [each.value for each in faults(away, rollback)] == ["I on b", "loss computed by I on b"]


def _joined(at: str) -> list[dict[str, object]]:
    return [instance("O", 1, 1, at, "J"), instance("J", 2, 2, at)]


def test_private_data_stays_where_it_is() -> None:
    private = cluster(link("a", "b"), a=node(10, private=True), b=node())
    fault = the_fault(phase(source("a", 2, "I"), instance("I", 1, 2, "b")), private)
    assert (fault.field, fault.value) == ("phases[0].sources[0].into", "I on b")
    assert "private" in fault.expected
    split = phase(source("a", 2, "I"), instance("I", 1, 1, "a", "J"), instance("J", 2, 2, "b"))
    assert faults(split, private) == []


@pytest.mark.parametrize("sync", ["step", "epoch", "async"])
def test_nodes_that_have_to_talk_need_a_path(sync: str) -> None:
    islands = cluster(a=node(10), b=node(10))
    both = phase(
        source("a", 1, "I"), source("b", 1, "J"), instance("I", 1, 2, "a"), instance("J", 1, 2, "b"), sync=sync
    )
    fault = the_fault(both, islands)
    assert (fault.field, fault.value) == ("phases[0].instances[1].node", "b to a")
    assert "no path" in fault.expected


def test_data_and_outputs_need_a_path_too() -> None:
    islands = cluster(a=node(10), b=node(10))
    far = faults(phase(source("a", 1, "I"), instance("I", 1, 1, "b", "J"), instance("J", 2, 2, "a")), islands)
    assert [fault.field for fault in far] == ["phases[0].sources[0].into", "phases[0].instances[0].into"]


def test_a_cpu_limit_is_told_with_its_instance() -> None:
    limited = cluster(link("a", "b"), a=node(10, limits={"cpu_share": 0.3}), b=node())
    fault = the_fault(phase(*WHOLE), limited)
    assert (fault.field, fault.value) == ("phases[0].instances[0].cpu_share", 1.0)
    assert "at most 0.3" in fault.expected
    assert faults(phase(source("a", 2, "I"), instance("I", 1, 2, "a", cpu_share=0.3)), limited) == []


def test_a_plan_has_to_fit_the_memory_of_its_nodes() -> None:
    need = 2 * 20 + 2 * 2  # weights and gradients, and two samples' outputs
    small = cluster(a=node(10, memory_bytes=need - 1.0))
    fault = the_fault(phase(*WHOLE), small)
    assert fault.field == "phases[0].instances"
    assert "on a" in fault.value
    assert "does not fit the memory of a, 43 B" in fault.expected
    assert faults(phase(*WHOLE), cluster(a=node(10, memory_bytes=float(need)))) == []


def test_an_energy_limit_holds_for_an_iteration_where_epochs_are_not_known() -> None:
    used = 2 * (2 * 3 + 0.5) * 5.0  # 13 s at 5 W
    tight = cluster(a=node(10, power=(1.0, 5.0), limits={"energy_j": used - 1}))
    fault = the_fault(phase(*WHOLE), tight)
    assert (fault.field, fault.value) == ("phases", "65 J on a")
    assert "at most 64 J" in fault.expected
    assert faults(phase(*WHOLE), cluster(a=node(10, power=(1.0, 5.0), limits={"energy_j": used}))) == []


def test_an_energy_limit_holds_for_the_whole_training_where_epochs_are_known() -> None:
    used = 3 * 5 * 65.0  # three epochs of five iterations
    for limit, many in ((used - 1, 1), (used, 0)):
        on = cluster(a=node(10, power=(1.0, 5.0), limits={"energy_j": limit}))
        assert len(faults(phase(*WHOLE, epochs=3), on)) == many


def test_energy_adds_up_over_phases() -> None:
    on = cluster(a=node(10, power=(1.0, 5.0), limits={"energy_j": 2 * 5 * 65.0 - 1}))
    one = phase(*WHOLE, epochs=1)
    assert check(plan(one), Evaluator(TWO, on)) == []
    assert len(check(plan(one, one), Evaluator(TWO, on))) == 1


def test_several_faults_are_told_at_once() -> None:
    limits = {"cpu_share": 0.5}
    on = cluster(link("a", "b"), a=node(10, private=True, limits=limits, memory_bytes=1.0), b=node(limits=limits))
    wrong = phase(source("a", 1, "I"), instance("I", 1, 2, "b"))
    heavy = phase(source("a", 1, "I"), instance("I", 1, 2, "a"))
    found = check(plan(wrong, heavy), Evaluator(TWO, on))
    assert [fault.field for fault in found] == [
        "phases[0].sources[0].into",
        "phases[0].instances[0].cpu_share",
        "phases[1].instances[0].cpu_share",
        "phases[1].instances",
    ]


def test_everything_that_is_missing_is_told_at_once() -> None:
    islands = cluster(a=node(10), b=node())
    known = profile([(10.0, 1.0), (10.0, 1.0)], a=times(2))
    made = phase(
        source("b", 1, "I"), source("a", 1, "J", epoch_samples=11), instance("I", 1, 2, "a"), instance("J", 1, 2, "b")
    )
    assert [fault.field for fault in faults(made, islands, known)] == [
        "phases[0].instances[1].node",
        "phases[0].sources[0].node",
        "phases[0].sources[1].epoch_samples",
        "phases[0].sources[0].into",
        "phases[0].sources[1].into",
        "phases[0].instances[1].node",
    ]


def test_a_batch_whose_samples_depend_on_one_another_is_not_divided() -> None:
    layers = [TWO.layers[0], TWO.layers[1].model_copy(update={"mixes_samples": True})]
    mixing = TWO.model_copy(update={"layers": tuple(layers)})
    apart = [source("a", 1, "I"), source("a", 1, "J"), instance("I", 1, 2, "a"), instance("J", 1, 2, "b")]
    fault, other = faults(phase(*apart), known=mixing)
    assert (fault.field, fault.value) == ("phases[0].instances[0]", "1 of 2 samples")
    assert "layer 2; expected one instance" in fault.expected
    assert other.field == "phases[0].instances[1]"
    together = [source("a", 1, "I"), source("a", 1, "J"), instance("I", 1, 1, "a", "K"), instance("J", 1, 1, "b", "K")]
    assert faults(phase(*together, instance("K", 2, 2, "b")), known=mixing) == []
