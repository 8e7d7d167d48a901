"""Fraction of time that each backend of a chain times, known before the run.

Times are those of ops without contention, as the chain predicts them. ``plan``, reports and
``trace info`` all use these functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ....models.compute.chain import Chain, largest_ops
from ....models.compute.recorded import Recorded
from ....sim.facts.backend import Backend, uncontended_seconds
from ....sim.facts.graph import Graph
from ....sim.facts.ops import Kind, Ops
from ....sim.facts.signature import parse_signature
from ....sim.facts.system import System
from ....sim.record.binding import ops_by_backend
from ....sim.rerun.sensitivity import ScaledBackend

LISTED = 5  # of the largest ops that only a recording answers
Shares = dict[str, Any]


def chain_shares(graphs: Iterable[Graph], backends: Sequence[Backend | None]) -> dict[str, Shares]:
    """Fraction of time per backend of every chain, by kind of component; empty without chains.

    For each kind, ``links`` has the name, source, number of ops, seconds and fraction of each
    backend, and ``only_recorded`` the ops with most time that only the backend ``recorded`` can
    time; ops that differ in shape only are counted together.

    Parameters
    ----------
    graphs : placed graphs; templates are skipped
    backends : opened backend of each component
    """
    asked: dict[str, list[tuple[Chain, Ops]]] = {}
    for graph in (g for g in graphs if g.template is None):
        for who, _, ops in ops_by_backend(graph, backends):
            if (chain := _chain_inside(who)) is not None and not chain.online:
                for kind, own in _ops_by_component_kind(ops):
                    asked.setdefault(kind, []).append((chain, own))
    kinds = sorted(asked, key=lambda kind: (kind != "gpu", kind))
    return {kind: _link_shares(asked[kind]) for kind in kinds}


def kernel_shares(graph: Graph, chain: Chain) -> Shares:
    """Fraction of kernel time per backend of a chain, for one graph.

    The same numbers as in a run that has this chain on its GPUs.
    """
    chain.open(System(()))
    return _link_shares([(chain, graph.ops.take(np.flatnonzero(graph.ops.kind == Kind.COMPUTE)))])


def has_chain(backend: Backend) -> bool:
    """True if a backend is a chain, also inside a slowed-down component."""
    return _chain_inside(backend) is not None


def _chain_inside(backend: Backend) -> Chain | None:
    if isinstance(backend, ScaledBackend):
        return _chain_inside(backend.inner)
    return backend if isinstance(backend, Chain) else None


def _ops_by_component_kind(ops: Ops) -> Iterator[tuple[str, Ops]]:
    """Kind of component, and the ops that run on it."""
    assert ops.at is not None  # noqa: S101  questions() places them
    kinds = ops.at.system.components.column(lambda c: c.kind, object)[ops.at.component]
    for kind in dict.fromkeys(kinds.tolist()):
        yield kind, ops.take_with_placement(np.flatnonzero(kinds == kind))


def _op_kind_and_name(text: str) -> str:
    """Kind and name of an op without its shapes; without a signature, its kind."""
    if ":" not in text:
        return text
    parts = parse_signature(text)
    return f"{parts.kind}:{parts.bare_name or parts.name}"


def _link_shares(chains_and_ops: Iterable[tuple[Chain, Ops]]) -> Shares:
    links: dict[tuple[str, str], dict[str, Any]] = {}
    alone: dict[str, dict[str, Any]] = {}
    for chain, ops in chains_and_ops:
        who, seconds = chain.link_of_ops(ops), uncontended_seconds(chain.timing(ops), ops)
        for number, link in enumerate(chain.links):
            rows = np.flatnonzero(who == number)
            name = link.registered_name or type(link).__name__
            one = links.setdefault((name, link.source), {"ops": 0, "seconds": 0.0})
            one["ops"] += len(rows)
            one["seconds"] += float(seconds[rows].sum())
            if isinstance(link, Recorded) and len(chain.links) > 1:
                for op in largest_ops(ops, rows, seconds):
                    found = alone.setdefault(_op_kind_and_name(op.text), {"ops": 0, "seconds": 0.0})
                    found["ops"] += op.ops
                    found["seconds"] += op.seconds
    whole = sum(one["seconds"] for one in links.values()) or 1.0
    for one in (*links.values(), *alone.values()):
        one["share"] = one["seconds"] / whole
    largest = sorted(alone.items(), key=lambda item: -item[1]["seconds"])[:LISTED]
    return {
        "links": [{"link": n, "source": s, **one} for (n, s), one in links.items()],
        "only_recorded": [{"op": text, **one} for text, one in largest],
    }
