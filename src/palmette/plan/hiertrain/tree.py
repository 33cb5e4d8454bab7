"""From a policy to its instance tree, without segments that have no layers or no samples.

    S[1..m_s] ──────────────┐
    O1[1..m_s] ─▶ O2[m_s+1..m_l] ─▶ O3[m_l+1..N]
    L[1..m_l] ─────────────────────┘

Segments of worker_o are merged where nothing joins between them. A branch that reaches the last layer computes its own
loss: it is a second root, listed after worker_o's, so that gradients are averaged at worker_o.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from palmette.plan.core.strategy import Task
from palmette.plan.hiertrain.formula import Policy
from palmette.plan.hiertrain.problem import HierTrainProblem
from palmette.spec.plan import Phase
from palmette.spec.tree import Feed, Instance


def build_tree(problem: HierTrainProblem, policy: Policy, task: Task) -> Phase:
    """Build the phase of a policy."""
    p, last = policy, problem.depth
    trunk = list(_trunk(p, last))
    starts = {first: name for name, first, _ in trunk}
    parts = [(name, (first, end), p.o, starts.get(end + 1)) for name, first, end in trunk]
    for name, node, m, samples in (("S", p.s, p.m_s, p.b_s), ("L", p.l, p.m_l, p.b_l)):
        if node is not None and samples:
            parts.append((name, (1, m), node, starts.get(m + 1)))
    owner = task.cluster.sources()[0]
    feeds = [(trunk[0][0] if trunk else "", p.b_o), ("S", p.b_s), ("L", p.b_l)]
    return Phase(
        sources=tuple(Feed(node=owner, samples=samples, into=name) for name, samples in feeds if samples),
        instances=tuple(
            Instance(
                id=name,
                layers=layers,
                node=problem.names[node],
                cpu_share=task.cluster.nodes[problem.names[node]].limits.cpu_share,
                into=into,
            )
            for name, layers, node, into in parts
        ),
    )


def _trunk(p: Policy, last: int) -> Iterator[tuple[str, int, int]]:
    """The segments of worker_o that have samples: name, first and last layer."""
    joins = {m for m, samples in ((p.m_s, p.b_s), (p.m_l, p.b_l)) if samples}
    ends = sorted(joins | ({0} if p.b_o else set()) | {last})
    for k, (before, end) in enumerate(itertools.pairwise(ends), 1):
        yield f"O{k}", before + 1, end
