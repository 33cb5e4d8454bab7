"""PACT and its rivals against brute force over all schedules."""

from __future__ import annotations

import math
from typing import Any

import pytest

import palmette as pt
from palmette.plan.pact import exact_cost_to_go, optimum
from palmette.plan.pact.action_selection import ActionSelector
from palmette.plan.pact.actions import actions_of
from palmette.plan.pact.expanded_graph import build_graph
from palmette.plan.pact.rivals import RivalSearch
from palmette.plan.pact.simulation import initial_state
from palmette.spec.goal import Goal
from tests.plan.pact.by_hand import Plain, changes_in, least_energy_j, least_loss, meeting
from tests.plan.pact.graph import LiteralGraph
from tests.plan.pact.problems import loaded, random_problem
from tests.thorough import mostly_slow

GOAL = {"weights": {"energy": 1.0}}


def decision(strategy: str, problem: Plain, **options: Any) -> dict[str, Any]:
    made = pt.plan(strategy, problem=loaded(problem), **options)
    assert made.estimate is None
    return made.decision


def energy_j(strategy: str, problem: Plain, **options: Any) -> float:
    """Joules of a strategy's schedule; infinite where it finds none."""
    try:
        return float(decision(strategy, problem, **options)["energy_j"])
    except pt.Infeasible:
        return math.inf


def small(seed: int, *, back: bool) -> Plain:
    made = random_problem(seed, back=back, models=2 if back else 3, epochs=3)
    return made | {"deadline_s": min(made["deadline_s"], 6.0)}


HARD = [small(seed, back=False) for seed in (18, 40, 58)]
"""Problems whose optimum takes several epochs."""


@pytest.mark.parametrize("back", mostly_slow([True, False], 1), ids=["with ways back", "without ways back"])
def test_optimum_and_pact_equal_brute_force_where_predictions_are_exact(back: bool) -> None:
    met = 0
    for seed in range(200):
        problem = small(seed, back=back)
        least = least_energy_j(problem)
        assert energy_j("pact-optimum", problem) == pytest.approx(least), seed
        assert energy_j("pact", problem, risk=not back) == pytest.approx(least), seed
        met += least < math.inf
    assert met >= 150


def test_the_optimum_needs_no_graph() -> None:
    for seed in range(100):
        problem = random_problem(seed, back=True, exact=False, models=2, epochs=3) | {"deadline_s": 5.0}
        assert energy_j("pact-optimum", problem) == pytest.approx(least_energy_j(problem)), seed


def test_an_optimum_that_was_not_searched_to_the_end_says_how_far_off_it_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    best = [decision("pact-optimum", problem) for problem in HARD]
    assert not any("exact" in each for each in best)

    monkeypatch.setattr(optimum, "_MAX_LABELS", 1)
    hasty = [decision("pact-optimum", problem) for problem in HARD]
    assert all(each["exact"] is False for each in hasty)
    for least, found in zip(best, hasty, strict=True):
        assert least["energy_j"] <= found["energy_j"] + 1e-9
        assert found["energy_j"] * (1 - found["gap"]) <= least["energy_j"] + 1e-9


def test_an_optimum_whose_bounds_were_cut_short_is_not_called_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_cost_to_go, "MAX_ROUNDS", 2)
    for problem in HARD:
        found = decision("pact-optimum", problem)
        assert found["exact"] is False
        assert found["energy_j"] * (1 - found["gap"]) <= least_energy_j(problem) + 1e-9


def test_bounds_in_few_pieces_stay_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_cost_to_go, "MAX_PIECES", 3)
    monkeypatch.setattr(exact_cost_to_go, "MAX_THINNED_ROUNDS", 1)
    for problem in HARD:
        found, least_j = decision("pact-optimum", problem), least_energy_j(problem)
        assert least_j <= found["energy_j"] + 1e-9
        assert found["energy_j"] * (1 - found.get("gap", 0.0)) <= least_j + 1e-9


def test_one_switch_is_the_best_with_one_change() -> None:
    for seed in range(100):
        problem = small(seed, back=True)
        once = [each.energy_j for each in meeting(problem) if changes_in(problem, each.pairs) == 1]
        assert energy_j("one-switch", problem) == pytest.approx(min(once, default=math.inf)), seed


def test_static_learn_is_the_best_of_equal_parts() -> None:
    found = 0
    for seed in range(200):
        problem = random_problem(seed, exact=False, models=2, node_sets=1, epochs=3) | {"deadline_s": 7.0}
        least = min((each.energy_j for each in meeting(problem) if equal_parts(problem, each.pairs)), default=math.inf)
        assert energy_j("static-learn", problem, margin=0.3) == pytest.approx(least), seed
        found += least < math.inf
    assert found >= 10


def equal_parts(problem: Plain, pairs: tuple[tuple[str, str], ...], margin: float = 0.3) -> bool:
    """Whether every model has one segment, on one set of nodes, and lowers the loss by about the same."""
    models = [run["model"] for run in problem["run"]]
    row = [pair for k, pair in enumerate(pairs) if k == 0 or pair != pairs[k - 1]]
    if sorted(model for model, _ in row) != sorted(set(models)):
        return False
    falls = [fall(problem, pairs, pair) for pair in row]
    mean = sum(falls) / len(falls)
    return min(falls) > 0 and all(abs(each - mean) <= margin * mean + 1e-9 for each in falls)


def fall(problem: Plain, pairs: tuple[tuple[str, str], ...], own: tuple[str, str]) -> float:
    """How much the loss falls in the epochs of a pair, its change included."""
    runs = {(run["model"], run["nodes"]): run["loss_true"] for run in problem["run"]}
    changes = {(tuple(each["from"]), tuple(each["to"])): each["loss_true"] for each in problem["change"]}
    total, here = 0.0, (problem["start"]["model"], problem["start"]["nodes"])
    for k, pair in enumerate(pairs):
        if pair == own:
            total -= runs[pair][min(k, len(runs[pair]) - 1)] + (changes[here, pair] if here != pair else 0.0)
        here = pair
    return total


def test_static_learn_looks_where_parts_are_equal_first_and_says_when_it_has_not_seen_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Epochs that take no time have 20,000 lengths, and so many segments that nobody could look at them all."""
    free = random_problem(4, back=True, models=3, epochs=3)
    for run in free["run"]:
        run["time_s"] = 0.0
    whole = energy_j("static-learn", free)
    monkeypatch.setattr(RivalSearch.static_learn, "__defaults__", (300_000,))
    found = decision("static-learn", free)
    assert whole < math.inf
    assert found["energy_j"] == pytest.approx(whole)
    assert found["exact"] is False


def test_what_is_out_of_reach_names_the_least_loss() -> None:
    refused = 0
    for seed in range(60):
        problem = small(seed, back=True) | {"target_loss": 0.0, "deadline_s": 4.0}
        if least_energy_j(problem) == math.inf:
            with pytest.raises(pt.Infeasible) as error:
                decision("pact", problem)
            said = float(str(error.value).partition("can be reached by then is ")[2].partition(",")[0])
            least = least_loss(problem)
            assert least - 1e-9 <= said <= least + max(least, 1.0) * 1e-5, seed
            refused += 1
    assert refused >= 20


def test_when_a_target_can_be_had_later_is_said() -> None:
    problem = one_model(loss=[-0.5]) | {"deadline_s": 2.0, "target_loss": 0.5}
    with pytest.raises(pt.Infeasible, match=r"the least loss .* is 1, and the target can be reached after 3 s"):
        decision("pact-optimum", problem)


def test_when_it_can_be_had_is_said_of_a_deadline_that_is_far_too_short() -> None:
    problem = one_model(loss=[-0.01]) | {"deadline_s": 0.1, "target_loss": 0.5}
    with pytest.raises(pt.Infeasible, match=r"the least loss .* is 2, and the target can be reached after 150 s"):
        decision("pact", problem)


def test_the_time_that_is_named_is_enough() -> None:
    for epoch_s in (0.777777777, 1.0, 1 / 3, 1234.56789):
        problem = one_model(loss=[-0.1]) | {"deadline_s": 2.0 * epoch_s}
        problem["run"] = [each | {"time_s": epoch_s} for each in problem["run"]]
        with pytest.raises(pt.Infeasible) as error:
            decision("pact-optimum", problem)
        named_s = float(str(error.value).partition("can be reached after ")[2].removesuffix(" s"))
        assert named_s == pytest.approx(10 * epoch_s, rel=1e-5)
        assert decision("pact-optimum", problem | {"deadline_s": named_s})["time_s"] <= named_s


def one_model(loss: list[float]) -> Plain:
    """One model on one set of nodes, a joule and a second an epoch, from a loss of 2 to 1."""
    run = {"model": "L", "nodes": "gold", "time_s": 1.0, "energy_j": 1.0, "loss_expected": loss, "loss_robust": loss}
    return {
        "format": "palmette.pact/1",
        "models": ["L"],
        "node_sets": ["gold"],
        "start": {"model": "L", "nodes": "gold", "loss": 2.0},
        "target_loss": 1.0,
        "deadline_s": 10.0,
        "loss_step": 0.1,
        "time_step_s": 1.0,
        "run": [run],
        "change": [],
    }


@pytest.mark.parametrize("strategy", ["pact", "pact-optimum", "static-learn"])
def test_one_model_trains_until_the_target(strategy: str) -> None:
    made = decision(strategy, one_model(loss=[-0.3, -0.2]))
    assert made["schedule"] == [{"model": "L", "nodes": "gold", "epochs": 5}]
    assert made["energy_j"] == pytest.approx(5)
    assert made["loss"] == pytest.approx(0.9)


@pytest.mark.parametrize("strategy", ["pact", "pact-optimum"])
def test_a_target_that_is_met_needs_no_epoch(strategy: str) -> None:
    made = decision(strategy, one_model(loss=[-0.3]) | {"target_loss": 2.0})
    assert (made["schedule"], made["energy_j"], made["time_s"], made["loss"]) == ([], 0.0, 0.0, 2.0)
    assert made["progress"] == []


def test_the_goal_may_ask_for_another_loss_and_deadline() -> None:
    problem = one_model(loss=[-0.25])
    assert decision("pact", problem, goal=Goal(**GOAL, loss=0.5))["energy_j"] == pytest.approx(6)
    with pytest.raises(pt.Infeasible, match=r"target_loss: 1: .* within 3 s; the least loss .* is 1\.25"):
        decision("pact", problem, goal=Goal(**GOAL, deadline_s=3.0))


def test_only_energy_is_minimised() -> None:
    with pytest.raises(pt.InputError, match="goal: time: expected energy"):
        decision("pact", one_model(loss=[-0.3]), goal="time")


def test_rounding_up_alone_does_not_stop_a_training() -> None:
    problem = one_model(loss=[-0.03]) | {"deadline_s": 50.0}
    assert decision("pact", problem)["schedule"][0]["epochs"] == 34


def test_a_training_goes_on_where_the_robust_estimates_know_no_way() -> None:
    problem = one_model(loss=[-0.2]) | {"deadline_s": 5.0}
    problem["run"][0]["loss_robust"] = [-0.1]
    assert decision("pact", problem)["schedule"][0]["epochs"] == 5


def test_too_fine_a_resolution_is_refused() -> None:
    with pytest.raises(pt.InputError, match="loss_step: 1e-08: the graph would hold"):
        decision("pact", one_model(loss=[-0.1]) | {"loss_step": 1e-8})


def test_epochs_that_cost_nothing_end() -> None:
    problem = one_model(loss=[0.0, -0.2])
    problem["run"][0] |= {"time_s": 0.0, "energy_j": 0.0}
    for strategy in ("pact", "pact-optimum"):
        assert decision(strategy, problem)["energy_j"] == 0.0


@pytest.mark.parametrize("weigh_risk", [False, True], ids=["by weight", "with risk and opportunity"])
def test_the_first_action_has_the_lowest_score_on_the_literal_graph(weigh_risk: bool) -> None:
    compared = 0
    for seed in range(120):
        plain = random_problem(seed, back=True, exact=False, models=2, epochs=3) | {"deadline_s": 5.0}
        plain |= {"loss_step": 0.05, "time_step_s": 0.25}
        problem = loaded(plain)
        actions = actions_of(problem)
        chosen = ActionSelector(build_graph(problem, actions, actions.robust), weigh_risk=weigh_risk).select(
            initial_state(problem)
        )
        scores = {
            pair: max(weight, back) / opportunity if weigh_risk else weight
            for pair, (weight, opportunity, back) in LiteralGraph(plain).scores().items()
        }
        if chosen is None:
            assert not scores, seed
            continue
        assert scores[actions.pairs[actions.to_pair[chosen]]] == pytest.approx(min(scores.values())), seed
        compared += len(scores) > 1
    assert compared >= 40


@pytest.mark.parametrize("option", ["distill", "bound"])
def test_what_a_problem_says_itself_is_not_asked_for_beside_it(option: str) -> None:
    with pytest.raises(pt.InputError, match=rf"^{option}: .* expected it without problem$"):
        decision("pact", HARD[0], **{option: True})
