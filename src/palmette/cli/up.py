"""``palmette up``: from one file to a trained network."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palmette.cli import options as opt

if TYPE_CHECKING:
    from palmette.control.run.request import Request
    from palmette.control.up.steps import UpRequest
    from palmette.spec.plan import Plan
    from palmette.spec.profile import Profile

PROFILE, COMPARISON, PLAN, REPORT = "profile.json", "comparison.json", "plan.json", "report.html"
CLUSTER = "cluster.yaml"


def up(
    file: Annotated[Path, typer.Argument(help="The training file (YAML), as palmette init writes it.")] = Path(
        "training.yaml"
    ),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Train without asking.")] = False,
    engine: Annotated[
        str | None,
        typer.Option("--engine", help="Where workers run, instead of where the file says: local, ray or hub."),
    ] = None,
    keys: opt.KeysFolder = None,
    listen: opt.Listen = None,
    insecure: opt.Insecure = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The folder of results, instead of the file's.")
    ] = None,
    trust_code: opt.TrustCode = False,
    quiet: opt.Quiet = False,
) -> None:
    """Profile, compare, plan, train and report, as one file describes; if interrupted, the same command continues.

    Example: palmette up training.yaml --engine hub --keys keys -o at-hub
    """
    from palmette.control.up.inputs import Elsewhere, read_inputs

    elsewhere = Elsewhere(engine=engine, keys=keys, listen=listen, insecure=insecure, output=output)
    read = read_inputs(file, elsewhere)  # before torch is imported: it may be missing, and the file wrong

    from palmette.cli.run_session import await_workers
    from palmette.control.up.request import meeting_place, within_worker_limits
    from palmette.control.up.steps import RUN, refuse_changed, refuse_unanswered, run_inputs, trusted_request

    asked = trusted_request(read, trust_code=trust_code)
    refuse_changed(asked)
    refuse_unanswered(yes or asked.has_run or sys.stdin.isatty())
    if asked.has_run:
        _resume(asked, quiet=quiet, trust_code=trust_code)
    else:
        await_workers(meeting_place(asked), asked.cluster.computing, quiet)
        profile = _profile(asked, quiet)
        plan = _plan(within_worker_limits(_with_measured_links(asked, quiet)), profile, quiet)
        if not (yes or _agrees()):
            run = shlex.join(["palmette", "run", str(asked.folder.file(PLAN))])
            print(f"not trained; {asked.again} asks again, {run} runs the plan")
            return
        asked.folder.note(RUN, run_inputs(asked))
        _train(asked, plan, quiet)
    _report(asked)


def _with_measured_links(asked: UpRequest, quiet: bool) -> UpRequest:
    """The training with links that were guessed as its machines measure them, where the engine has real ones."""
    import palmette as pt
    from palmette.control.up.links import guessed_links, link_inputs, measured_cluster
    from palmette.runtime.engines.registry import ENGINES

    guessed = guessed_links(asked.cluster)
    if not guessed:
        return asked
    if ENGINES[asked.training.engine].prober is None:
        _say(quiet, asked.cluster_file or asked.file, f"guessed, not measured: {', '.join(guessed)}")
        return asked
    folder, made_from = asked.folder, link_inputs(asked)
    if folder.keeps(CLUSTER, made_from):
        _say(quiet, folder.file(CLUSTER), "kept")
        return replace(asked, cluster=pt.load_cluster(folder.file(CLUSTER)))
    found = measured_cluster(asked, lambda line: None if quiet else print(f"palmette: {line}", file=sys.stderr))
    folder.write(CLUSTER, found.to_yaml(), made_from)
    _say(quiet, folder.file(CLUSTER), "links measured")
    return replace(asked, cluster=found)


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
    from palmette.cli.show.planning_progress import planning_progress
    from palmette.control.up.steps import decide, plan_inputs

    folder, made_from = asked.folder, plan_inputs(asked, profile)
    if folder.keeps(PLAN, made_from):
        plan = pt.load_plan(folder.file(PLAN))
        _say(quiet, folder.file(PLAN), "kept")
    else:
        strategy = asked.training.strategy
        with opt.naming(asked.cluster_file or asked.file, "nodes"), planning_progress(quiet, strategy) as progress:
            found, plan = decide(asked, profile, progress)
        folder.write(COMPARISON, json.dumps(comparison_json(found), indent=1) + "\n", made_from)
        folder.write(PLAN, plan.to_json(), made_from)
        _say(quiet, folder.file(PLAN), "decided; all plans side by side:")
        if not quiet:
            chosen = plan.decision.get("strategy", plan.strategy)
            show_comparison(found, chosen=chosen, left_out=plan.decision.get("left_out"))
            print()
    if not quiet:
        show_plan(plan)
    return plan


def _agrees() -> bool:
    """Whether the user wants to train with this plan."""
    print("Train with this plan? [Y/n] ", end="", file=sys.stderr, flush=True)
    try:
        return sys.stdin.readline().strip().lower() in ("", "y", "yes")
    except KeyboardInterrupt:
        print(file=sys.stderr)  # what follows is a line of its own
        raise


def _train(asked: UpRequest, plan: Plan, quiet: bool) -> None:
    from palmette.cli.run_session import execute_run
    from palmette.control.run.session import prepare
    from palmette.control.up.request import run_request
    from palmette.control.up.steps import RUN
    from palmette.spec.plan import inputs_of

    request = run_request(asked, plan)
    session = prepare(plan, *inputs_of(plan, None, None), request, asked.folder.file(RUN))
    execute_run(session, json_=False, quiet=quiet, again=asked.again)


def _resume(asked: UpRequest, *, quiet: bool, trust_code: bool) -> None:
    """Go on with the run that has begun, by its own plan."""
    from palmette.cli.run_session import await_workers, execute_run
    from palmette.control.run.session import resume
    from palmette.control.up.steps import RUN

    training = asked.training
    typed = (training.recipe, training.data, training.run.optimizer)

    def announce(request: Request, plan: Plan) -> None:
        await_workers(request, plan.nodes(), quiet)

    folder, insecure = asked.folder.file(RUN), training.run.insecure
    session = resume(folder, insecure=insecure, trust_code=trust_code, typed=typed, announce=announce)
    _say(quiet, asked.folder.file(RUN), "continuing the run that was started")
    execute_run(session, json_=False, quiet=quiet, again=asked.again)


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
