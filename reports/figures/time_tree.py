"""Time of ops as a tree: job, kind, phase, module, op."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.facts.kind import Kind
from ...sim.run.result import Result
from ...sim.units import seconds
from ..export.op_places import op_places
from ..palette import bar_kinds, kind_of_bar

MOST_LEAVES = 1_500  # of a tree; those with least time are one
LONGEST = 80  # letters of a name
BACKWARD = re.compile(r"[Bb]ackward")
FORWARD = re.compile(r"forward\b")  # a module that says the phase itself
OPTIMIZER = re.compile(r"[Oo]ptimizer|[Aa]dam|::_?foreach_")
SEPARATOR = re.compile(r"[./]")


class OpTotal(NamedTuple):
    """Total time of all ops with one name.

    Parameters
    ----------
    path : names from the root of the tree to the op: job (if there are several), kind, phase,
        modules, op name
    kind : kind of timeline bar, such as ``compute``
    value : time of the mean rank in s, per period if there are periods
    ops : number of ops over all ranks and periods
    """

    path: tuple[str, ...]
    kind: str
    value: float
    ops: int


def op_totals(result: Result) -> list[OpTotal]:
    """Total time of ops by path, longest first; a collective counts on each of its ranks."""
    where, columns = op_places(result), result.columns
    ran = columns.end[where.op] > columns.start[where.op]
    op, weights = where.op[ran], result.rank_weights
    alike = weights[where.rank[ran]]
    took = seconds(columns.end[op] - columns.start[op], result.tick) * alike
    label, texts = _labels(result)
    kinds, names = len(Kind), len(texts) + 1
    keys = (result.job[op].astype(np.int64) * kinds + result.ops.kind[op]) * names + label[op] + 1
    unique, group = np.unique(keys, return_inverse=True)
    time, count = np.bincount(group, took), np.bincount(group, alike)
    share = 1.0 / (max(int(weights.sum()), 1) * max(len(result.periods), 1))
    phases = any(BACKWARD.search(name) for name, _ in texts)
    told = any(FORWARD.match(module) for _, module in texts)
    several = len(result.jobs) > 1
    found = []
    for k, key in enumerate(unique.tolist()):
        job, kind, number = key // names // kinds, key // names % kinds, key % names - 1
        name, module = texts[number] if number >= 0 else (str(Kind(kind).name.lower()), "")
        shown = kind_of_bar(Kind(kind))
        guessed = phases and not told and shown in ("compute", "host")
        phase = (_phase(name),) if guessed else ()
        path = (
            *((result.jobs[job],) if several else ()), shown, *phase,
            *(part for part in SEPARATOR.split(module) if part), _short(name),
        )  # fmt: skip
        found.append(OpTotal(path, shown, float(time[k]) * share, int(count[k])))
    return sorted(found, key=lambda one: -one.value)


def _labels(result: Result) -> tuple[NDArray[np.int64], list[tuple[str, str]]]:
    """Index of each op's (name, module) pair, shape (ops,), -1 for none; and the list of pairs."""
    numbers: dict[tuple[str, str], int] = {}
    found = []
    for run in result.runs:
        own = [numbers.setdefault((t.name, t.module), len(numbers)) for t in run.graph.labels]
        found.append(np.array([*own, -1], np.int64)[run.graph.ops.label])
    return np.concatenate(found), list(numbers)


def _phase(name: str) -> str:
    """Phase of a training step that an op belongs to, from the op's name.

    >>> _phase("autograd::engine::evaluate_function: AddmmBackward0"), _phase("aten::mm")
    ('backward', 'forward and other')
    """
    if BACKWARD.search(name):
        return "backward"
    return "optimizer" if OPTIMIZER.search(name) else "forward and other"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def time_tree(totals: Mapping[str, list[OpTotal]]) -> dict[str, Any]:
    """Total op time of each variant as a tree of job, kind, phase, module and op.

    >>> one = OpTotal(("compute", "gemm"), "compute", 2.0, 4)
    >>> tree = time_tree({"base": [one]})
    >>> tree["name"], tree["value"], tree["children"][0]["children"][0]["name"]
    ('base', 2.0, 'gemm')
    """
    trees = []
    for variant, found in totals.items():
        root = _Node(variant)
        most = MOST_LEAVES // len(totals)
        for one in found[:most]:
            root.add(one.path, one)
        rest = found[most:]
        if rest:
            value, ops = sum(r.value for r in rest), sum(r.ops for r in rest)
            root.add((f"{len(rest)} others",), OpTotal((), "", value, ops))
        trees.append(root.plain())
    if len(trees) == 1:
        return trees[0]
    return {
        "name": "all variants",
        "value": sum(t["value"] for t in trees),
        "count": sum(t["count"] for t in trees),
        "children": trees,
    }


class _Node:
    """A tree node under construction: its time, its number of ops and its children by name."""

    def __init__(self, name: str):
        self.name, self.value, self.ops, self.kind = name, 0.0, 0, ""
        self.inside: dict[str, _Node] = {}

    def add(self, path: tuple[str, ...], one: OpTotal) -> None:
        """Add an op total at the end of its path."""
        self.value += one.value
        self.ops += one.ops
        if path:
            child = self.inside.setdefault(path[0], _Node(path[0]))
            child.kind = one.kind
            child.add(path[1:], one)

    def plain(self) -> dict[str, Any]:
        """Convert the node to plain data, largest child first."""
        children = sorted(self.inside.values(), key=lambda node: -node.value)
        return {
            "name": self.name,
            "value": float(f"{self.value:.6g}"),
            "count": self.ops,
            **({"kind": bar_kinds()[self.kind]} if self.kind else {}),
            **({"children": [c.plain() for c in children]} if children else {}),
        }


def largest_ops(totals: Mapping[str, list[OpTotal]], max_ops: int) -> Iterator[tuple[str, str]]:
    """Kind and name of at most ``max_ops`` ops with the most time in any variant, longest first."""
    by_name: dict[tuple[str, str], float] = {}
    for found in totals.values():
        for one in found:
            key = (one.kind, one.path[-1])
            by_name[key] = max(by_name.get(key, 0.0), one.value)
    yield from sorted(by_name, key=lambda key: -by_name[key])[:max_ops]
