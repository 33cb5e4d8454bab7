"""A training file to start from, as ``palmette init`` writes it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from yaml import YAMLError

from palmette.errors import one_line
from palmette.spec.files import from_yaml, validated
from palmette.spec.training import TrainingFile
from palmette.zoo.training_names import refuse_unknown_names

_TEMPLATE = """\
# A training: palmette up {file} profiles, compares, plans, trains and reports.
# palmette check says what is wrong with this file; paths are relative to it.

cluster: {cluster}{gap}# or what stands in it: nodes and links, indented
{network}
data: {data}                      # digits, cifar10:FOLDER, folder:DIR, csv:FILE, … or package.module:callable
batch: 64
goal: {goal}                        # time, energy, power, edp, cost, carbon or a sum: 0.3*time+0.7*energy
epochs: {epochs}
# deadline: 2 h                   # of the whole training
# strategy: auto                  # the best of all for the goal; palmette strategies lists them
engine: {engine}# local emulates the cluster on this machine; ray and hub use real ones
output: training                  # the folder of profile, comparison, plan, run and report
{run}
"""


_RUN_EXAMPLE = "# run: {lr: 0.1, optimizer: adamw, testbed: namespaces, track: [tensorboard]}"


@dataclass(frozen=True, kw_only=True)
class TrainingTemplate:
    """What is trained: ``model`` is a network of the zoo, or a recipe, package.module:name; ``run`` is how."""

    cluster: str = "cluster.yaml"
    model: str = "lenet5"
    data: str = "digits"
    goal: str = "time"
    epochs: int = 2
    engine: str = "local"
    run: Mapping[str, str] = field(default_factory=dict)


def render_training(template: TrainingTemplate, file: str) -> str:
    """The text of a valid training file with comments.

    Raises:
        InputError: holds every value that cannot be used.
    """
    kind = "recipe" if ":" in template.model else "model"
    refuse_unknown_names(template.model, template.data)
    cluster = _scalar(template.cluster)
    network = (
        f"{kind}: {_scalar(template.model)}".ljust(34)
        + "# a network of the zoo; or recipe: training:recipe, of your own"
    )
    settings = ", ".join(f"{name}: {json.dumps(value)}" for name, value in template.run.items())
    text = _TEMPLATE.format(
        file=one_line(shlex.quote(file)),
        cluster=cluster,
        gap=" " * max(2, 25 - len(cluster)),
        network=network,
        data=_scalar(template.data),
        goal=_scalar(template.goal),
        epochs=template.epochs,
        engine=template.engine.ljust(26),
        run=f"run: {{{settings}}}" if settings else _RUN_EXAMPLE,
    )
    validated(TrainingFile, from_yaml(text), file).planned_for()
    return text


def _scalar(text: str) -> str:
    """A text as YAML, in quotes only where they are needed."""
    try:
        plain = from_yaml(f"field: {text}  # comment") == {"field": text}
    except YAMLError:
        plain = False
    return text if plain else json.dumps(text, ensure_ascii=False)
