"""What a Python program calls. Each function imports what it needs when it is called.

load             read clusters, profiles, plans and measurements
profile          what a network's layers cost on each node
plan             the plan of one strategy
compare          the plans of all strategies that apply
estimate         what a plan costs
what_if          what it would cost on a cluster that is different
pilot            the learning curve of a network, through short runs
run              execute a plan
arguments        types of arguments that several of them have
planning_inputs  what plan and compare are given, as planners take it
model_names      what a network is called that is given as an object
"""

from palmette.api.compare import compare
from palmette.api.estimate import estimate
from palmette.api.load import load_cluster, load_measurements, load_plan, load_profile
from palmette.api.pilot import pilot
from palmette.api.plan import plan
from palmette.api.profile import profile
from palmette.api.run import run
from palmette.api.what_if import what_if
from palmette.spec.display import Displayed, render_html_with

__all__ = [
    "compare",
    "estimate",
    "load_cluster",
    "load_measurements",
    "load_plan",
    "load_profile",
    "pilot",
    "plan",
    "profile",
    "run",
    "what_if",
]


def _html(shown: Displayed) -> str:
    from palmette.report.notebook.views import html_of

    return html_of(shown)


render_html_with(_html)  # in notebooks, from now on
