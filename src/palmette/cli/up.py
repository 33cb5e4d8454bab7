"""``palmette up``: from one file to a trained network."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.cli import options as opt

if TYPE_CHECKING:
    from palmette.control.up.steps import UpRequest
    from palmette.spec.plan import Plan
    from palmette.spec.profile import Profile

PROFILE, COMPARISON, PLAN, REPORT = "profile.json", "comparison.json", "plan.json", "report.html"


def up(
    file: Annotated[Path, typer.Argument(help="The training file (YAML), as palmette init writes it.")] = Path(
        "training.yaml"
    ),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Train without asking.")] = False,
    trust_code: opt.TrustCode = False,
    quiet: opt.Quiet = False,
) -> None:
    """Profile, compare, plan, train and report, as one file describes; if interrupted, the same command continues.

    Example: palmette up training.yaml -y
    """
    from palmette.cli.run import await_workers
    from palmette.control.up.request import meeting_place, within_worker_limits
    from palmette.control.up.steps import RUN, read_training, refuse_changed, refuse_unanswered, run_inputs

    asked = read_training(file, trust_code=trust_code)
    refuse_changed(asked)
    refuse_unanswered(yes or asked.has_run or sys.stdin.isatty())
    if asked.has_run:
        _resume(asked, quiet=quiet, trust_code=trust_code)
    else:
        await_workers(meeting_place(asked), quiet)
        profile = _profile(asked, quiet)
        plan = _plan(within_worker_limits(asked), profile, quiet)
        if not (yes or _agrees()):
            print(f"not trained; palmette up {file} asks again, palmette run {asked.folder.file(PLAN)} runs the plan")
            return
        asked.folder.note(RUN, run_inputs(asked))
        _train(asked, plan, quiet)
    _report(asked)


def _profile(asked: UpRequest, quiet: bool) -> Profile:
    """The profile: of this training, of an earlier one, or measured now."""
    import palmette as pt
    from palmette.cli.show.profile_progress import profile_progress
    from palmette.control.up.cache import cache_profile, cached_profile, profile_inputs
    from palmette.runtime.engines.registry import ENGINES

    folder, training = asked.folder, asked.training
    made_from = profile_inputs(training, asked.cluster)
    if folder.keeps(PROFILE, made_from):
        _say(quiet, folder.file(PROFILE), "kept")
        return pt.load_profile(folder.file(PROFILE))
    found = cached_profile(made_from)
    how = "measured before, with the same versions on this machine"
    if found is None:
        measured_there = ENGINES[training.engine].prober is not None
        with opt.naming(asked.cluster_file or asked.file, "nodes"), profile_progress(quiet) as progress:
            found = pt.profile(
                training.network,
                cluster=asked.cluster,
                data=training.data,
                input_shape=training.input_shape,
                precision=asked.options.autocast,
                engine=training.engine if measured_there else "local",
                keys=asked.keys,
                listen=training.run.listen,
                progress=progress,
            )
        cache_profile(found, made_from)
        how = "measured"
    folder.write(PROFILE, found.to_json(), made_from)
    _say(quiet, folder.file(PROFILE), how)
    return found


def _plan(asked: UpRequest, profile: Profile, quiet: bool) -> Plan:
    """The plan: kept, or decided now, after all strategies have been compared."""
    import palmette as pt
    from palmette.cli.show.comparison import comparison_json, show_comparison
    from palmette.cli.show.plan import show_plan
    from palmette.control.up.steps import decide, plan_inputs

    folder, made_from = asked.folder, plan_inputs(asked, profile)
    if folder.keeps(PLAN, made_from):
        plan = pt.load_plan(folder.file(PLAN))
        _say(quiet, folder.file(PLAN), "kept")
    else:
        with opt.naming(asked.cluster_file or asked.file, "nodes"):
            found, plan = decide(asked, profile)
        folder.write(COMPARISON, json.dumps(comparison_json(found), indent=1) + "\n", made_from)
        folder.write(PLAN, plan.to_json(), made_from)
        _say(quiet, folder.file(PLAN), "decided; all plans side by side:")
        if not quiet:
            show_comparison(found, chosen=plan.decision.get("strategy", plan.strategy))
            print()
    if not quiet:
        show_plan(plan)
    return plan


def _agrees() -> bool:
    """Whether the user wants to train with this plan."""
    print("Train with this plan? [Y/n] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def _train(asked: UpRequest, plan: Plan, quiet: bool) -> None:
    from palmette.cli.run import execute_run
    from palmette.control.run.session import prepare
    from palmette.control.up.request import run_request
    from palmette.control.up.steps import RUN
    from palmette.spec.plan import inputs_of

    request = run_request(asked, plan)
    session = prepare(plan, *inputs_of(plan, None, None), request, asked.folder.file(RUN))
    execute_run(session, json_=False, quiet=quiet, again=f"palmette up {asked.file}")


def _resume(asked: UpRequest, *, quiet: bool, trust_code: bool) -> None:
    """Go on with the run that has begun, by its own plan."""
    from palmette.cli.run import execute_run
    from palmette.control.run.session import resume
    from palmette.control.up.steps import RUN

    training = asked.training
    typed = (training.recipe, training.data, training.run.optimizer)
    session = resume(asked.folder.file(RUN), insecure=training.run.insecure, trust_code=trust_code, typed=typed)
    _say(quiet, asked.folder.file(RUN), "continuing the run that was started")
    execute_run(session, json_=False, quiet=quiet, again=f"palmette up {asked.file}")


def _report(asked: UpRequest) -> None:
    from palmette.cli.report import prediction_errors
    from palmette.control.up.steps import RUN
    from palmette.report.build import build_report
    from palmette.report.entry import read_entries
    from palmette.spec.files import write_text

    entries = read_entries([asked.folder.file(RUN)])
    write_text(asked.folder.file(REPORT), build_report(entries))
    for line in prediction_errors(entries):
        print(line)
    print(f"{asked.folder.file(REPORT)}: open it in any browser")


def _say(quiet: bool, file: Path, text: str) -> None:
    """Say what a step has come to, on stderr: a later one may still refuse the file."""
    if not quiet:
        print(f"palmette: {file}: {text}", file=sys.stderr)
