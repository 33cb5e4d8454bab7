"""What a shell and a notebook show: a short text, and HTML that stands alone."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
import torch

import palmette as pt
from palmette.runtime.training.evaluation import Evaluation
from palmette.runtime.training.job import RunOutcome
from palmette.spec.plan import Plan
from tests.cost.small import instance, phase, source
from tests.plan.problems import profile, three_tiers

VOID = {"br", "line", "path"}


class Balanced(HTMLParser):
    """Checks that elements are closed in their order; collects the text and the names of elements."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.words = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.append(tag)
        assert not any(name.startswith("on") or name == "src" for name, _ in attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += f"{data} "


@pytest.fixture
def plan() -> Plan:
    return pt.plan("hybrid", profile=profile(4), cluster=three_tiers(), batch=8)


def html(shown: object) -> Balanced:
    found = Balanced(shown._repr_html_())  # type: ignore[attr-defined]
    assert "script" not in found.seen
    return found


def test_texts_are_short(plan: Plan) -> None:
    assert repr(three_tiers()) == "Cluster(3 nodes: phone (device), server (edge) and cloud (cloud); 2 links)"
    assert repr(profile(4)) == "Profile(tiny: 4 layers, 3.91 KiB of weights, on phone, server and cloud)"
    assert repr(plan).startswith("Plan(hybrid for tiny, batch 8; layers ")
    assert "; an iteration: " in str(plan)
    assert repr(plan.estimate).startswith("Estimate(an iteration: ")
    for shown in (plan, plan.estimate, plan.inputs.profile, plan.inputs.cluster):
        assert "\n" not in repr(shown)
        assert len(repr(shown)) < 300


def test_a_comparison_lists_its_best_plans() -> None:
    found = pt.compare(profile=profile(), cluster=three_tiers(), batch=8)
    lines = repr(found).splitlines()
    assert lines[0].startswith(f"Comparison({len(found.plans)} plans, best first; ")
    assert [line.strip() for line in lines[1:6]] == [repr(each) for each in found.plans[:5]]
    assert lines[6:] == ["  …"]
    shown = html(found)
    assert all(each.strategy in shown.words for each in found.plans)
    assert all(name in shown.words for name in found.skipped)


def test_an_outcome_and_a_recipe_say_what_they_are() -> None:
    outcome = RunOutcome(iterations=20, energy_j=3.0, time_s=2.0, evaluation=Evaluation(0.5, 0.875, {"mae": 0.25}))
    said = "ended: done; iterations: 20; time: 2 s; energy: 3 J (modelled); held-out loss: 0.5000; accuracy: 87.5%"
    assert repr(outcome) == f"RunOutcome({said}; mae: 0.25)"
    assert "87.5%" in html(outcome).words
    recipe = pt.Recipe(model="lenet5", data=([1], [2]), loss=len, input_shape=(3, 4), metrics={"mae": len})
    assert repr(recipe) == "Recipe(model=lenet5, data=(list, list), loss=len, metrics=mae, input_shape=(3, 4))"
    assert "lenet5" in html(recipe).words


def test_a_plan_shows_its_table_its_tree_and_its_timeline(plan: Plan) -> None:
    shown = html(plan)
    assert shown.seen.count("svg") == 2
    for node in plan.phases[0].nodes():
        assert node in shown.words
    assert "8 samples" in shown.words
    assert "backward" in shown.words


def test_pictures_are_well_formed_svg(plan: Plan) -> None:
    text = plan._repr_html_()
    for picture in [part.partition("</svg>")[0] for part in text.split("<svg")[1:]]:
        ET.fromstring(f"<svg{picture}</svg>")


def test_a_plan_without_inputs_shows_its_tree_and_one_that_does_not_fit_its_table(plan: Plan) -> None:
    assert html(plan.model_copy(update={"inputs": None})).seen.count("svg") == 1
    cut = phase(source("moon", 8, "a"), instance("a", 1, 4, "moon"))
    lost = html(plan.model_copy(update={"phases": (cut,)}))
    assert "svg" not in lost.seen
    assert "moon" in lost.words


def test_names_are_escaped(plan: Plan) -> None:
    sly = plan.model_copy(update={"model": "<img src=x onerror=alert(1)>", "strategy": "</div>"})
    assert "<img" not in sly._repr_html_()
    html(sly)


def test_estimates_profiles_and_clusters_are_tables(plan: Plan) -> None:
    assert html(pt.estimate(plan, timeline=True)).seen.count("svg") == 1
    assert "layer3" in html(profile(4)).words
    words = html(three_tiers()).words
    assert "phone – server" in words
    assert "8 Mbit/s" in words


def test_a_large_profile_shows_its_first_layers() -> None:
    assert "and 40 more" in html(profile(100)).words


def test_a_run_that_stopped_early_says_so_and_data_may_be_any_object() -> None:
    assert repr(RunOutcome(stopped_early=True)).startswith("RunOutcome(ended: done (early); ")
    assert repr(pt.Recipe(model="lenet5", data=torch.zeros(2, 3))) == "Recipe(model=lenet5, data=Tensor)"
