"""Graph of a step that was recorded without running it: ops and their order, but no times.

An op that no rule of ``op_work`` knows is assumed to only move bytes: it reads its operands and
writes one tensor as large as the largest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...sim.facts.graph import Graph
from ...sim.facts.ops import Kind, Ops
from ...sim.facts.signature import parse_signature

OF_TIMES = ("gap_share", "host_time", "step_times")


def without_times(graph: Graph) -> Graph:
    """Copy of a graph whose ops have no durations, so that a model must predict them.

    Its fact ``assumed_to_move_bytes`` names the ops of which only the operands are known.

    Examples
    --------
    >>> from ...sim.facts.graph import Builder
    >>> build = Builder("one op")
    >>> _ = build.op(Kind.COMPUTE, duration=1e-6)
    >>> without_times(build.graph()).ops.duration.tolist()
    [nan]
    """
    ops = graph.ops
    assumed = (ops.kind == Kind.COMPUTE) & (np.isnan(ops.flop) | np.isnan(ops.bytes))
    duration = np.where(ops.kind == Kind.COMPUTE, np.nan, 0.0)
    facts = {name: value for name, value in graph.facts.items() if name not in OF_TIMES}
    known = assume_bytes_only(ops, assumed).replace(duration=duration)
    facts |= {"timed": False, "assumed_to_move_bytes": operator_names(ops, assumed)}
    return replace(graph.with_ops(known), facts=facts)


def assume_bytes_only(ops: Ops, assumed: NDArray[np.bool_]) -> Ops:
    """Copy of the ops in which some are assumed to only move bytes, with 0 flop.

    These read their operands and write one tensor as large as the largest operand.
    """
    told = [parse_signature(text) for text in ops.signatures]
    moved = np.array(
        [t.bytes + max((o.bytes for o in t.operands), default=0) for t in told] + [0.0]
    )
    return ops.replace(
        flop=np.where(assumed, 0.0, ops.flop),
        bytes=np.where(assumed, moved[ops.signature], ops.bytes),
    )


def operator_names(ops: Ops, of: NDArray[np.bool_]) -> list[str]:
    """Distinct operator names of the ops selected by mask `of`."""
    signatures = np.unique(ops.signature[of]).tolist()
    return sorted({parse_signature(ops.signatures[i]).op for i in signatures if i >= 0})
