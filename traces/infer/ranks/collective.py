"""Recorded collectives: name, element type, size and group of each."""

from __future__ import annotations

import json
import re
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import TraceError
from ....sim.facts.signature import WIDTH, Operand, Signature
from ..events.call_tree import CallTree
from ..events.operands import DTYPES, parse_operands
from ..events.rank_trace import RankTrace
from ..waits.launches import Launches
from ..waits.network_waits import largest_input_elements

ANNOTATED = re.compile(r"(nccl|gloo|rccl|c10d|hccl|xccl):")
_NAMES = (  # in this order: the first that fits
    ("all-reduce", r"all_?reduce|cross_device_(reduce|sum)|quick_?reduce"),
    ("reduce-scatter", r"reduce_?scatter"),
    ("all-gather", r"all_?gather"),
    ("all-to-all", r"all_?to_?all|sendrecv"),
    ("broadcast", r"broadcast"),
    ("barrier", r"barrier"),
    ("scatter", r"scatter"),
    ("gather", r"gather"),
    ("reduce", r"reduce"),
    ("send", r"send"),
    ("recv", r"recv"),
)
OPERATOR = "c10d::alltoall_base_"
"""Operator around an all-to-all of one tensor: its output, its input, then splits of both."""
INPUT_SPLITS = 4
"""Place of the splits of what is sent among its arguments."""
LEFT_OUT = "..."
"""In place of numbers in the middle of a long list."""
SYNCHRONISING = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "barrier")


class RecordedCollective(NamedTuple):
    """Collective as recorded by one of its members.

    Parameters
    ----------
    work : number of the launched work; in the graph of a rank, number of the op made from it
    name : all-reduce, all-gather, …
    dtype : element type; "" if not recorded
    size : number of elements in the larger of this rank's two buffers; 0 if not recorded
    group : ranks of the process group, ascending; () if not recorded
    channel : name of the process group; "" if not recorded
    in_flight : True if it was launched before the first step; it is then not matched across ranks
    sent, received : number of elements of the rank's input and output; -1 if not recorded
    sent_splits : number of rows of the input that go to each rank of the group; () if not recorded
    """

    work: int
    name: str
    dtype: str = ""
    size: int = 0
    group: tuple[int, ...] = ()
    channel: str = ""
    in_flight: bool = False
    sent: int = -1
    received: int = -1
    sent_splits: tuple[int, ...] = ()

    @property
    def signature(self) -> str:
        """Signature (``docs/signatures.md``); without an operand if the size is not recorded."""
        operand = (Operand(self.dtype, (self.size,)),) if self.dtype and self.size else ()
        return str(Signature("collective", self.name, operand))

    @property
    def bytes(self) -> float:
        """Size of the larger buffer in B; NaN if not recorded."""
        return float(WIDTH[self.dtype] * self.size) if self.dtype and self.size else np.nan


def is_collective(events: RankTrace, work: Launches) -> NDArray[np.bool_]:
    """True where launched work is a collective, shape (work,)."""
    return events.is_communication_kernel[work.row] | events.is_gloo_collective[work.row]


def collective_name(text: str) -> str:
    """Name of a collective, from the name of a library's kernel or range; "" if it is none.

    >>> collective_name("ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    'all-reduce'
    >>> collective_name("nccl:_all_gather_base")
    'all-gather'
    """
    low = text.lower()
    return next((name for name, pattern in _NAMES if re.search(pattern, low)), "")


def recorded_collectives(
    events: RankTrace, work: Launches, tree: CallTree
) -> list[RecordedCollective]:
    """Describe every collective of a rank, in the order of its launches."""
    rows = np.flatnonzero(is_collective(events, work))
    if not len(rows):
        return []
    position = {r: i for i, r in enumerate(tree.row.tolist())}
    table = {e: i for i, e in enumerate(events.trace.collectives["event"].tolist())}
    when = np.where(work.call[rows] >= 0, events.start[work.call[rows]], work.start[rows])
    return [
        _describe_collective(events, work, k, _enclosing_rows(work, tree, position, k), table)
        for k in rows[np.lexsort((work.start[rows], when))].tolist()
    ]


def _enclosing_rows(work: Launches, tree: CallTree, position: dict[int, int], k: int) -> list[int]:
    """Rows of launched work, its launching call, and the events around it, innermost first."""
    rows = [int(work.row[k])]
    at = position.get(int(work.call[k]), -1)
    while at >= 0:
        rows.append(int(tree.row[at]))
        at = int(tree.parent[at])
    return rows


def _describe_collective(
    events: RankTrace, work: Launches, k: int, around: list[int], table: dict[int, int]
) -> RecordedCollective:
    """Build the record of the collective that launched work `k` is.

    The facts are read from the profiler's table and from the events around the work.
    """
    entry = next((table[g] for r in around if (g := int(events.rows[r])) in table), -1)
    named = [r for r in around if ANNOTATED.match(events.text(r))]
    name = collective_name(events.text(named[0] if named else around[0])) or "all-to-all"
    dtype, size = "", 0
    for r in [*named, around[0]]:
        if size := largest_input_elements(events, r):
            dtype = _largest_input_dtype(events, r)
            break
    group: tuple[int, ...] = ()
    channel = ""
    if entry >= 0:
        dtype, size, group, channel = _read_profiler_row(events, entry, dtype, size)
    if not group and events.is_gloo_collective[work.row[k]]:
        group = next((g.ranks for g in events.process.groups), ())
    found = RecordedCollective(k, name, dtype, size, tuple(sorted(group)), channel)
    if name != "all-to-all":
        return found
    sent, received, splits = _exchanged_elements(events, entry, around)
    return found._replace(sent=sent, received=received, sent_splits=splits)


def _largest_input_dtype(events: RankTrace, row: int) -> str:
    """Element type of the largest input of an event; "" if not recorded."""
    shapes, dtypes = (int(events.table[c][row]) for c in ("shapes", "dtypes"))
    if shapes < 0 or dtypes < 0:
        return ""
    texts = events.trace.strings
    inputs = parse_operands(texts[shapes], texts[dtypes])
    return max(inputs, key=lambda o: o.bytes).dtype if inputs else ""


def _exchanged_elements(
    events: RankTrace, entry: int, around: list[int]
) -> tuple[int, int, tuple[int, ...]]:
    """Number of elements that an all-to-all sends, number that it receives, and its splits.

    -1 and () if not recorded.
    """
    table, texts = events.trace.collectives, (*events.trace.strings, "")
    if entry >= 0:
        splits = _read_splits(events, texts[int(table["sent_splits"][entry])])
        return int(table["sent"][entry]), int(table["received"][entry]), splits
    for r in around:
        if events.text(r) == OPERATOR:
            columns = (int(events.table[c][r]) for c in ("shapes", "dtypes", "scalars"))
            shapes, dtypes, scalars = (texts[i] for i in columns)
            output, into, *_ = *(prod(o.shape) for o in parse_operands(shapes, dtypes)), -1, -1
            values = json.loads(scalars or "[]")
            splits = _read_splits(
                events, values[INPUT_SPLITS] if len(values) > INPUT_SPLITS else ""
            )
            return into, output, splits
    return -1, -1, ()


def _read_splits(events: RankTrace, text: str) -> tuple[int, ...]:
    """Parse a list of splits; () if there is none, or if the profiler truncated it."""
    if LEFT_OUT in text:
        return ()
    try:
        return tuple(map(int, json.loads(text or "[]")))
    except (ValueError, TypeError) as error:
        raise TraceError(
            f"{events.process.file}: splits of an all-to-all are {text!r}, which is no list of "
            "numbers; the file is damaged, record it again"
        ) from error


def _read_profiler_row(
    events: RankTrace, i: int, dtype: str, size: int
) -> tuple[str, int, tuple[int, ...], str]:
    """Element type, size, group and channel of a collective, from row `i` of its table."""
    table, texts = events.trace.collectives, (*events.trace.strings, "")
    dtype = DTYPES.get(texts[int(table["dtype"][i])].lower(), dtype)
    size = max(int(table["sent"][i]), int(table["received"][i])) or size
    channel = texts[int(table["group"][i])]
    listed = texts[int(table["ranks"][i])]
    if listed and LEFT_OUT not in listed:
        group = tuple(int(r) for r in re.findall(r"\d+", listed))
    else:
        group = next((g.ranks for g in events.process.groups if g.name == channel), ())
    return dtype, size, group, channel
