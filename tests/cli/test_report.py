"""palmette report on the command line."""

from __future__ import annotations

import json

from tests.cli.world import World
from tests.report.folders import plan_file, run_folder, tree


def test_a_page_of_plans_and_runs(world: World) -> None:
    plan, run = plan_file(world.folder / "mine.json", tree()), run_folder(world.folder / "run", tree())
    page = world.folder / "page.html"
    done = world.palmette("report", plan, run, "-o", page, "--no-rivals")
    assert (done.code, done.err) == (0, "")
    assert str(page) in done.out
    text = page.read_text()
    assert "1 plan and 1 run: mine, run" in text
    assert len(text) < 3_000_000


def test_inputs_can_be_given(world: World) -> None:
    page = world.folder / "page.html"
    assert world.palmette("report", world.tree, *world.inputs, "-o", page, "--no-rivals").code == 0
    assert '"iteration_s"' in page.read_text()


def test_a_plan_that_cannot_be_carried_out_is_refused(world: World) -> None:
    data = json.loads(world.tree.read_text())
    data["phases"][0]["instances"][1]["node"] = "nowhere"
    wrong = world.write("wrong.json", json.dumps(data))
    (line,) = world.refused("report", wrong, *world.inputs, "-o", world.folder / "page.html")
    assert line.startswith(f"{wrong}: phases[0].instances[1].node: nowhere")
    assert not (world.folder / "page.html").exists()


def test_a_torn_trace_is_refused_with_its_line(world: World) -> None:
    run = run_folder(world.folder / "run", tree())
    with (run / "trace.jsonl").open("a") as file:
        file.write('{"iteration": 0}\n')
    (line,) = world.refused("report", run, "-o", world.folder / "page.html")
    assert "trace.jsonl: line " in line


def test_a_page_that_cannot_be_written_is_refused(world: World) -> None:
    plan = plan_file(world.folder / "mine.json", tree())
    (line,) = world.refused("report", plan, "-o", world.folder / "no" / "page.html", "--no-rivals")
    assert "cannot be written" in line


def test_nothing_to_report_is_refused(world: World) -> None:
    (line,) = world.refused("report")
    assert "RUN_OR_PLAN" in line
