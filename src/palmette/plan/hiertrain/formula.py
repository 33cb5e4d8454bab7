"""T_total of one policy: equations (1) to (15) of HierTrain.

    S  1 ═══▶ m_s ╲
    L  1 ════════════▶ m_l ╲
    O  1 ════▶ m_s ══▶ m_l ══════▶ N

Two terms are added to the paper's. Each transfer adds the latency of its path: raw data, outputs and their gradients
where there are samples, weight gradients where there are weights. Each call that has samples adds its fixed time. With
both at 0 and whole CPUs, this is exactly the paper's formula: the terms of m_s and m_l count even where b_s or b_l is
0, and layer N's output is sent where m = N.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from palmette.plan.hiertrain.problem import Floats, HierTrainProblem


class Policy(NamedTuple):
    """The nodes of worker_o, worker_s and worker_l (None: not used), the cuts m_s and m_l, and the batch split."""

    o: int
    s: int | None
    l: int | None  # noqa: E741 -- the paper's name
    m_s: int
    m_l: int
    b_o: int
    b_s: int
    b_l: int


@dataclass(frozen=True)
class CostTerms:
    """The terms of one policy's T_total."""

    problem: HierTrainProblem
    policy: Policy

    def total_s(self) -> float:
        """T_total, equation (12): the sum of the three parts' forward and backward, and the update."""
        return (
            self.forward_1() + self.backward_1() + self.forward_2() + self.backward_2() + self.part_3() + self.update()
        )

    def forward_1(self) -> float:
        """T¹_forward, equation (5): layers 1 to m_s on all three workers."""
        p = self.policy
        return max(
            self._input(p.o, p.b_o) + self._call("forward", p.o, 0, p.m_s, p.b_o),
            self._input(p.s, p.b_s) + self._call("forward", p.s, 0, p.m_s, p.b_s) + self._output(p.s, p.m_s, p.b_s),
            self._input(p.l, p.b_l) + self._call("forward", p.l, 0, p.m_s, p.b_l),
        )

    def backward_1(self) -> float:
        """T¹_backward, equation (6); the gradient sent back is as large as the output."""
        p = self.policy
        return max(
            self._call("backward", p.o, 0, p.m_s, p.b_o),
            self._call("backward", p.s, 0, p.m_s, p.b_s) + self._gradient(p.s, p.m_s, p.b_s),
            self._call("backward", p.l, 0, p.m_s, p.b_l),
        )

    def forward_2(self) -> float:
        """T²_forward, equation (7): layers m_s+1 to m_l on worker_o and worker_l."""
        p = self.policy
        return max(
            self._call("forward", p.o, p.m_s, p.m_l, p.b_o + p.b_s),
            self._call("forward", p.l, p.m_s, p.m_l, p.b_l) + self._output(p.l, p.m_l, p.b_l),
        )

    def backward_2(self) -> float:
        """T²_backward, equation (8)."""
        p = self.policy
        return max(
            self._call("backward", p.o, p.m_s, p.m_l, p.b_o + p.b_s),
            self._call("backward", p.l, p.m_s, p.m_l, p.b_l) + self._gradient(p.l, p.m_l, p.b_l),
        )

    def part_3(self) -> float:
        """T³_forward + T³_backward, equations (9) and (10): layers m_l+1 to N on worker_o."""
        p, last = self.policy, self.problem.depth
        batch = p.b_o + p.b_s + p.b_l
        return self._call("forward", p.o, p.m_l, last, batch) + self._call("backward", p.o, p.m_l, last, batch)

    def update(self) -> float:
        """T_update, equation (11), with each worker's update by equation (3)."""
        p, updates = self.policy, self.problem.update
        computing = max(
            updates[p.o, self.problem.depth],
            updates[p.s, p.m_s] if p.s is not None else 0.0,
            updates[p.l, p.m_l] if p.l is not None else 0.0,
        )
        return float(computing + max(self._weight_gradients(p.s, p.m_s), self._weight_gradients(p.l, p.m_l)))

    def _call(self, kind: str, node: int | None, before: int, last: int, samples: int) -> float:
        """Equations (1) and (2) for a range of layers."""
        if node is None or not samples:
            return 0.0
        sample_s: Floats = getattr(self.problem, kind)
        fixed_s: Floats = getattr(self.problem, f"{kind}_call")
        return float(
            fixed_s[node, last] - fixed_s[node, before] + samples * (sample_s[node, last] - sample_s[node, before])
        )

    def _input(self, node: int | None, samples: int) -> float:
        """T_input: sending raw data from the owner, by equation (4)."""
        if node is None or not samples:
            return 0.0
        return float(self.problem.input_latency_s[node] + samples * self.problem.input_s[node])

    def _output(self, node: int | None, layer: int, samples: int) -> float:
        """T_output: sending a layer's output to worker_o, by equation (4)."""
        if node is None or not samples:
            return 0.0
        return self._transfer(node, self.policy.o, samples * float(self.problem.output_bytes[layer]))

    def _gradient(self, node: int | None, layer: int, samples: int) -> float:
        """T_grad: sending the gradient of that output back; the paper's T_output, as links are the same both ways."""
        if node is None or not samples:
            return 0.0
        return self._transfer(self.policy.o, node, samples * float(self.problem.output_bytes[layer]))

    def _weight_gradients(self, node: int | None, last: int) -> float:
        """T_weightgrad: sending the gradients of layers 1 to m to worker_o, and the averages back."""
        size_bytes = float(self.problem.trainable_bytes[last])
        if node is None or not size_bytes:
            return 0.0
        o = self.policy.o
        return self._transfer(node, o, size_bytes) + self._transfer(o, node, size_bytes)

    def _transfer(self, sender: int, receiver: int, size_bytes: float) -> float:
        return float(self.problem.latency_s[sender, receiver] + size_bytes * self.problem.s_per_byte[sender, receiver])


def total_s(problem: HierTrainProblem, policy: Policy) -> float:
    """T_total of a policy, equation (12)."""
    return CostTerms(problem, policy).total_s()


def is_feasible(problem: HierTrainProblem, policy: Policy) -> bool:
    """Whether a policy satisfies equations (13) to (15), keeps private data in place, and fits in memory."""
    p = policy
    whole = p.b_o + p.b_s + p.b_l == problem.batch and min(p.b_o, p.b_s, p.b_l) >= 0
    if not (whole and p.b_s <= p.m_s * problem.batch and p.b_l <= p.m_l * problem.batch and p.m_s <= p.m_l):
        return False
    active = [node for node, samples in ((p.o, p.b_o), (p.s, p.b_s), (p.l, p.b_l)) if samples]
    if problem.private and active != [problem.owner]:
        return False
    return all(size <= problem.memory_bytes[node] for node, size in _memory(problem, p))


def _memory(problem: HierTrainProblem, p: Policy) -> list[tuple[int, float]]:
    """Bytes on each worker: weights of the layers that it has samples for, and activations."""
    weights, activation, last = problem.weight_bytes, problem.activation_bytes, problem.depth
    first = 0 if p.b_o else p.m_s if p.b_s else p.m_l
    activations = problem.batch * activation[last] - p.b_s * activation[p.m_s] - p.b_l * activation[p.m_l]
    held = [(p.o, float(problem.weight_copies * (weights[last] - weights[first]) + activations))]
    for node, m, samples in ((p.s, p.m_s, p.b_s), (p.l, p.m_l, p.b_l)):
        if node is not None and samples:
            held.append((node, float(problem.weight_copies * weights[m] + samples * activation[m])))
    return held
