"""What happens in an iteration: which operations there are, where, of how many bytes, after which others."""

from __future__ import annotations

from typing import Any

from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import iteration, samples_by_instance, trees
from palmette.cost.replicas import replicated_layers
from palmette.cost.routes import Routes
from palmette.cost.sizes import Sizes
from palmette.cost.steps import Iteration, Kind
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile, Tie
from tests.cost.small import Fields, cluster, instance, link, node, phase, profile, source

SIZES = [(10.0, 100.0), (20.0, 200.0), (40.0, 400.0), (80.0, 800.0)]  # weights and output of each layer
FOUR: Profile = profile(SIZES, input_bytes=7.0)
LINE = cluster(link("a", "b"), link("b", "c"), link("c", "d"), a=node(9), b=node(9), c=node(9), d=node(9))


def read_off(*parts: Fields, on: Cluster = LINE, of: Profile = FOUR, **more: Any) -> Iteration:
    return iteration(phase(*parts, **more), Sizes(of, of.input_bytes), Routes(on))


def transfers(found: Iteration) -> list[tuple[str, str, str | None, float]]:
    rows = zip(found.steps, found.size_bytes, strict=True)
    return [(step.kind.value, step.node, step.to, size) for step, size in rows if step.to is not None]


def kinds(found: Iteration) -> list[str]:
    return [step.kind.value for step in found.steps]


def test_one_instance_where_its_data_is_sends_nothing() -> None:
    found = read_off(source("a", 3, "I"), instance("I", 1, 4, "a"))
    assert kinds(found) == ["forward", "backward", "update"]


def test_raw_data_travels_but_has_no_gradient() -> None:
    found = read_off(source("a", 3, "I"), instance("I", 1, 4, "b"))
    assert transfers(found) == [("data", "a", "b", 21)]


def test_a_split_sends_the_output_of_its_last_layer_and_gets_a_gradient_as_large_back() -> None:
    found = read_off(source("a", 3, "I"), instance("I", 1, 2, "a", "J"), instance("J", 3, 4, "b"))
    assert transfers(found) == [("output", "a", "b", 600), ("gradient", "b", "a", 600)]


def test_int8_sends_a_quarter_rounded_up_with_scales_and_an_output_with_labels() -> None:
    odd = profile([(1.0, 2.5), (1.0, 1.0)])
    odd = odd.model_copy(update={"layers": (odd.layers[0].model_copy(update={"output_channels": 5}), odd.layers[1])})
    made = phase(source("a", 3, "I"), instance("I", 1, 1, "a", "J", codec="int8"), instance("J", 2, 2, "b"))
    found = iteration(made, Sizes(odd, odd.input_bytes), Routes(LINE))
    # ceil(7.5 / 4), a float for each of 5 channels, and 8 bytes for the label of each of 3 samples
    assert transfers(found) == [("output", "a", "b", 2 + 20 + 24), ("gradient", "b", "a", 2 + 20)]


def test_without_output_channels_no_scales_count_and_labels_that_stay_cost_nothing() -> None:
    odd = profile([(1.0, 2.5), (1.0, 1.0), (1.0, 1.0)])
    made = phase(
        source("a", 3, "I"),
        instance("I", 1, 1, "a", "J", codec="int8"),
        instance("J", 2, 2, "b", "K"),
        instance("K", 3, 3, "a"),
    )
    found = iteration(made, Sizes(odd, odd.input_bytes), Routes(LINE))
    assert transfers(found)[0] == ("output", "a", "b", 2)


def test_a_chain_may_return_to_a_node_that_it_left() -> None:
    found = read_off(
        source("a", 1, "I"), instance("I", 1, 1, "a", "J"), instance("J", 2, 3, "b", "K"), instance("K", 4, 4, "a")
    )
    assert transfers(found) == [
        ("output", "a", "b", 100),
        ("output", "b", "a", 400),
        ("gradient", "a", "b", 400),
        ("gradient", "b", "a", 100),
    ]


def test_each_feeder_gets_the_gradient_of_its_own_samples() -> None:
    found = read_off(
        source("a", 2, "I"),
        source("b", 5, "J"),
        instance("I", 1, 1, "a", "K"),
        instance("J", 1, 1, "b", "K"),
        instance("K", 2, 4, "c"),
    )
    gradients = [step for step in transfers(found) if step[0] == "gradient"]
    assert sorted(gradients) == [("gradient", "c", "a", 200), ("gradient", "c", "b", 500)]


def test_samples_add_up_towards_the_root() -> None:
    made = phase(
        source("a", 2, "I"),
        source("b", 5, "J"),
        source("b", 1, "J"),
        instance("K", 2, 4, "c"),
        instance("I", 1, 1, "a", "K"),
        instance("J", 1, 1, "b", "K"),
    )
    assert samples_by_instance(made) == [8, 2, 6]


def branches(nodes: str, *, first: str = "K") -> list[Fields]:
    """Branches over layers 1 and 1–2 that merge into K[2..2] and L[3..4]; ``nodes`` are those of I, J, K, L."""
    i, j, k, last = nodes
    parts = [
        instance("I", 1, 1, i, "K"),
        instance("J", 1, 2, j, "L"),
        instance("K", 2, 2, k, "L"),
        instance("L", 3, 4, last),
    ]
    parts.sort(key=lambda part: part["id"] != first)
    return [source(i, 1, "I"), source(j, 1, "J"), *parts]


def test_gradients_of_all_replicated_layers_go_in_one_message() -> None:
    # J holds 1 and 2; both meet at c, the root's node, where I and K are.
    found = transfers(read_off(*branches("cacc")))
    assert ("push", "a", "c", 30) in found
    assert ("pull", "c", "a", 30) in found
    assert sum(kind in ("push", "pull") for kind, *_ in found) == 2


def test_an_instance_sends_a_message_to_each_place_where_its_layers_meet() -> None:
    # Layer 1 is on b and a, layer 2 on b and c, the root on c: layer 1 meets on b, a hop away, layer 2 on c.
    found = transfers(read_off(*branches("abcc")))
    exchanged = {step for step in found if step[0] in ("push", "pull")}
    assert exchanged == {("push", "a", "b", 10), ("pull", "b", "a", 10), ("push", "b", "c", 20), ("pull", "c", "b", 20)}


def test_replicas_meet_on_the_node_of_the_first_listed_root() -> None:
    roots = [instance("I", 1, 4, "a"), instance("J", 1, 4, "b"), instance("K", 1, 4, "b")]
    for order in (roots, roots[::-1]):
        made = phase(*(source(i["node"], 1, i["id"]) for i in order), *order)
        (run,) = replicated_layers(made, Routes(LINE))
        assert run.layers == (1, 4)
        assert run.place == order[0]["node"]


def test_without_a_replica_there_they_meet_at_the_fewest_hops_and_then_by_list_order() -> None:
    star = cluster(*(link(x, "hub") for x in "abr"), a=node(9), b=node(9), r=node(), hub=node())
    for order in ("ab", "ba"):
        made = phase(
            *(source(x, 1, x.upper()) for x in order),
            *(instance(x.upper(), 1, 2, x, "R") for x in order),
            instance("R", 3, 4, "r"),
        )
        (run,) = replicated_layers(made, Routes(star))
        assert run.place == order[0]
    nearer = phase(
        source("a", 1, "A"),
        source("b", 1, "B"),
        instance("A", 1, 2, "a", "R"),
        instance("B", 1, 2, "b", "R"),
        instance("R", 3, 4, "c"),
    )
    (run,) = replicated_layers(nearer, Routes(LINE))
    assert run.place == "b"


def test_replicas_on_one_node_send_nothing_and_still_average() -> None:
    found = read_off(source("a", 1, "I"), source("a", 1, "J"), instance("I", 1, 4, "a"), instance("J", 1, 4, "a"))
    assert transfers(found) == []
    assert kinds(found).count("average") == 1


def test_two_replicas_away_from_the_meeting_place_send_their_sum_in_one_message() -> None:
    parts = [instance("I", 1, 4, "a"), instance("J", 1, 4, "b"), instance("K", 1, 4, "b")]
    found = read_off(*(source(p["node"], 1, p["id"]) for p in parts), *parts)
    assert [step for step in transfers(found) if step[0] == "push"] == [("push", "b", "a", 150)]
    assert [step for step in transfers(found) if step[0] == "pull"] == [("pull", "a", "b", 150)]
    push = next(step for step in found.steps if step.kind is Kind.PUSH)
    assert [found.steps[need].instance for need in push.after] == [1, 2]


def test_micro_batches_of_a_pipeline_exchange_once_a_node() -> None:
    lanes = [(x, y, k) for x, y in ("ab", "cd") for k in range(64)]
    parts = [instance(f"{x}{k}", 1, 2, x, f"{y}{k}") for x, y, k in lanes]
    parts += [instance(f"{y}{k}", 3, 4, y) for _, y, k in lanes]
    found = read_off(*(source(x, 1, f"{x}{k}") for x, _, k in lanes), *parts)
    assert sum(kind in ("push", "pull") for kind, *_ in transfers(found)) == 4  # two stages, there and back
    assert kinds(found).count("update") == 4


def test_a_phase_may_say_where_gradients_meet() -> None:
    parts = [instance("I", 1, 4, "a"), instance("J", 1, 4, "b")]
    found = read_off(*(source(p["node"], 1, p["id"]) for p in parts), *parts, meet="c")
    exchanged = {step for step in transfers(found) if step[0] in ("push", "pull")}
    pushed = {("push", "a", "c", 150), ("push", "b", "c", 150)}
    assert exchanged == pushed | {("pull", "c", "a", 150), ("pull", "c", "b", 150)}


def test_replicas_on_one_node_meet_there_whatever_the_phase_says() -> None:
    found = read_off(
        source("a", 1, "I"), source("a", 1, "J"), instance("I", 1, 4, "a"), instance("J", 1, 4, "a"), meet="c"
    )
    assert transfers(found) == []


def test_a_tied_weight_meets_where_one_of_its_layers_is_whatever_the_phase_says() -> None:
    """Nobody else takes part: with no layer on two nodes, ``meet`` names a node that has nothing to do."""
    tied = FOUR.model_copy(update={"ties": (Tie(name="w", parameter_bytes=4, layers=(1, 4)),)})
    parts = [instance("I", 1, 2, "a", "J"), instance("J", 3, 4, "b")]
    found = read_off(source("a", 1, "I"), *parts, of=tied, meet="c")
    assert [step for step in transfers(found) if step[0] in ("push", "pull")] == [
        ("push", "a", "b", 4),
        ("pull", "b", "a", 4),
    ]


def test_layers_without_weights_have_nothing_to_exchange() -> None:
    light = profile([(0.0, 1.0), (5.0, 1.0)])
    made = phase(
        source("a", 1, "I"),
        source("b", 1, "J"),
        instance("I", 1, 1, "a", "K"),
        instance("J", 1, 1, "b", "K"),
        instance("K", 2, 2, "c"),
    )
    found = iteration(made, Sizes(light, light.input_bytes), Routes(LINE))
    assert not {"push", "average"} & set(kinds(found))


def test_nothing_waits_for_what_comes_later() -> None:
    for number, step in enumerate(read_off(*branches("abcd")).steps):
        assert all(need < number for need in step.after)


def test_each_layer_of_a_node_is_updated_once_after_backward_and_averages() -> None:
    # c holds I[1..1], K[2..2] and L[3..4], a holds J[1..2].
    found = read_off(*branches("cacc")).steps
    pull = next(k for k, step in enumerate(found) if step.kind is Kind.PULL)
    updates = {step.instance: step for step in found if step.kind is Kind.UPDATE}
    assert len(updates) == 4
    assert pull in updates[found[pull].instance].after
    for k, step in updates.items():
        assert any(found[need].kind is Kind.BACKWARD and found[need].instance == k for need in step.after)


def test_statistics_of_batch_norm_go_in_one_message_a_node_there_and_back() -> None:
    fields = FOUR.model_dump()
    fields["layers"][0]["batch_norm_channels"] = (3,)
    norms = Profile.model_validate(fields)
    parts = [instance("I", 1, 4, "a"), instance("J", 1, 4, "b"), instance("K", 1, 4, "b")]
    parts += [source(each["node"], 1, each["id"]) for each in parts]
    whole = read_off(*parts, of=norms, batch_norm="whole")
    sent = [step for step in transfers(whole) if step[0] in ("statistics", "totals")]
    assert sorted(sent) == [("statistics", "b", "a", 56)] * 2 + [("totals", "a", "b", 56)] * 2  # forward, backward
    assert kinds(whole).count("forward") == kinds(whole).count("backward") == 6
    assert kinds(read_off(*parts, of=norms)).count("forward") == 3


def test_a_phase_falls_apart_into_one_tree_a_root() -> None:
    made: Phase = phase(
        source("a", 1, "I"),
        source("b", 2, "J"),
        source("a", 3, "I"),
        instance("J", 1, 4, "b"),
        instance("I", 1, 2, "a", "R"),
        instance("R", 3, 4, "c"),
        sync="async",
    )
    first, second = trees(made)
    assert [i.id for i in first.instances] == ["J"]
    assert [i.id for i in second.instances] == ["I", "R"]
    assert [s.samples for s in second.sources] == [1, 3]
    assert first.server == second.server == "b"


def test_the_same_phase_has_the_same_operations() -> None:
    made = phase(*branches("abcd"))
    times = {name: {"forward_s": [1.0] * 4, "backward_s": [1.0] * 4, "update_s": [1.0] * 4} for name in "abcd"}
    evaluator = Evaluator(profile(SIZES, **times), LINE)
    assert evaluator.price(made) == evaluator.price(made)
