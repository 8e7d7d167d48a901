"""Host thread that dispatches the ops of a rank one after another, and waits where required.

A GPU is idle if its host thread is behind. If the thread runs ahead, as with the long kernels of
large models, it has no effect. At ops with :attr:`Work.awaited` the thread waits for its GPU: at
messages from another stage (Megatron-LM synchronises after them, ``p2p_communication.py``), and at
the gradient norm, from which the host decides whether to apply the step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....sim.facts.ops import Kind
from ..layer.operations import Work
from .segments import DISPATCH, OpTable, Rows, Segment, StepOp

OPERATOR, EXCHANGE = "host:operator", "host:exchange"  # signatures, see ``docs/signatures.md``
EXCHANGES = (Kind.SEND, Kind.RECV, Kind.COLLECTIVE)


class DispatchedOps(NamedTuple):
    """Ops of a rank together with those of its host thread.

    Parameters
    ----------
    ops : (n,) indices in the op table
    edges : (e, 2) pairs of rows: a row, and a later row that depends on it
    origin : (n,) segment row of each op; for a host op, that of the op which it dispatches
    """

    ops: Rows
    edges: Rows
    origin: Rows


def with_host_thread(part: Segment, table: OpTable) -> DispatchedOps:
    """Ops of a segment, each after the host op that dispatches it.

    The thread dispatches an op as soon as its dependencies are dispatched; collectives come before
    ops that overlap with them.

    Examples
    --------
    >>> table = OpTable()
    >>> number = table.number(StepOp(Kind.COMPUTE, 0, -1, Work("a", "compute:a"), ""))
    >>> two = Segment(*map(np.array, ([number] * 2, [[0, 1]], [0], [1], [])))
    >>> sorted(with_host_thread(two, table).edges.tolist())
    [[0, 1], [0, 2], [1, 3], [2, 3]]
    """
    rows = table.rows
    kind = np.array([row.kind for row in rows])[part.ops]
    awaited = np.array([row.work.awaited for row in rows])[part.ops]
    exchange = np.isin(kind, EXCHANGES)
    dispatched = _dispatch_order(part, exchange)
    dispatched = dispatched[kind[dispatched] != Kind.HOST]
    calls = [
        table.number(StepOp(Kind.HOST, DISPATCH, -1, Work("dispatch", signature), "host"))
        for signature in (OPERATOR, EXCHANGE)
    ]
    # Ops keep their order; each host op comes before the first op it dispatches.
    n = len(part.ops)
    before = np.minimum.accumulate(dispatched[::-1])[::-1]
    order = np.argsort(np.concatenate([2 * np.arange(n) + 1, 2 * before]), kind="stable")
    place = np.argsort(order)
    own, thread = place[:n], place[n:]
    synchronised = awaited[dispatched[:-1]]
    edges = [
        own[part.edges],
        np.stack([thread, own[dispatched]], axis=1),
        np.stack([thread[:-1], thread[1:]], axis=1),
        np.stack([own[dispatched[:-1]], thread[1:]], axis=1)[synchronised],
    ]
    ops = np.concatenate([part.ops, np.array(calls)[exchange[dispatched].astype(np.int64)]])
    origin = np.concatenate([np.arange(n), dispatched])
    return DispatchedOps(ops[order], np.concatenate(edges), origin[order])


def _dispatch_order(part: Segment, exchange: np.ndarray) -> Rows:
    """Rows in dispatch order; each comes after its dependencies."""
    latest = np.full(len(part.ops), -1, np.int64)
    np.maximum.at(latest, part.edges[:, 1], part.edges[:, 0])
    return np.lexsort((~exchange, latest))
