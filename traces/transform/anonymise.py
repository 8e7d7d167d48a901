"""Anonymised traces: private names are removed, so that a trace can be attached to a bug report.

Times, shapes, element types, thread and stream numbers are kept, and names from public software
(PyTorch operators, runtime calls, kernels of known libraries). Every other text (functions, paths,
modules, ranges, own kernels and groups, hosts, files) becomes a word and a number. Equal texts get
the same number, so the structure is preserved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..column_table import ColumnTable
from ..event_columns import TABLES, Event
from ..recorded_events import FileHeader, ProcessGroup, Track
from ..trace import Trace

PUBLIC = re.compile(
    r"(aten|c10d|torch|prims|profiler|autograd|quantized|gloo|nccl|record_param_comms|_c10d_\w+)"
    r"(::|:|\.|$)[\w:. ]*"
    r"|(cu|cuda|hip|nccl|rccl|hsa)[A-Z]\w*|cuda[a-z]+ ?\w*|Mem(cpy|set) [\w() >-]+"
    r"|\w+Backward\d*|detach|PyTorch Profiler.*"
    r"|ProfilerStep#\d+|Optimizer\.\w+#\w+\.\w+|enumerate\(DataLoader\)\S*|DataLoader"
    r"|DistributedDataParallel\.forward|## process_group:init ##|\[memory\]|Iteration Start.*"
    r"|(void )?(at::native::|cudnn|ampere|sm\d+|volta|turing|ncclKernel|ncclDev)"
    r"[\w:<>, ()*&+.~\[\]{}#-]*"
)
"""Names that public software gives."""

TEMPLATE = re.compile(r"((?:void )?(?:cutlass|cub|thrust)[\w:]*)<.*")
"""Kernels of public libraries whose arguments may be one's own."""
THREAD = re.compile(r"(thread|stream)?\s*\d*( \((python|pt_\w+)\))?")

MODULE = "nn.Module: "
WORDS = {
    Event.OP: "op",
    Event.ANNOTATION: "range",
    Event.PYTHON: "function",
    Event.RUNTIME: "call",
    Event.KERNEL: "kernel",
    Event.COPY: "copy",
}
KEPT = ("category", "shapes", "dtypes")  # and the collectives' and syncs' own vocabulary


class _ReplacementTexts:
    """Texts of the anonymised trace, and the replacement of each private text."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self._numbers: dict[str, dict[str, int]] = {}

    def string_number(self, text: str) -> int:
        """Index of a text in the new string table; the text is appended if missing."""
        return self.texts.setdefault(text, len(self.texts))

    def replacement(self, word: str, text: str) -> str:
        """Replacement of a text: `word` and a number, the same for equal texts; "" stays ""."""
        seen = self._numbers.setdefault(word, {})
        return f"{word}-{seen.setdefault(text, len(seen) + 1)}" if text else ""


def anonymise(trace: Trace) -> Trace:
    """Replace every text that may be private; times, shapes and structure are kept.

    Examples
    --------
    >>> texts = ("aten::mm", "secret_kernel<7>", "/home/ada/train.py(12): step")
    >>> kinds = [Event.OP, Event.KERNEL, Event.PYTHON]
    >>> trace = Trace.of(strings=texts, name=[0, 1, 2], kind=kinds, ts=[0, 1, 2], dur=[3, 2, 1])
    >>> anonymise(trace).text("name").tolist()
    ['aten::mm', 'kernel-1', 'function-1']
    """
    words = _ReplacementTexts()
    return replace(
        trace,
        events=_anonymised_events(trace, words),
        collectives=_anonymised_collectives(trace, words),
        syncs=_replace_texts(trace, trace.syncs, words, {"kind": str}),
        strings=tuple(words.texts),
        tracks=tuple(_anonymised_track(track) for track in trace.tracks),
        processes=tuple(_anonymised_process(process, words) for process in trace.processes),
        notes=(*(["some notes were left out"] if trace.notes else []), "anonymised"),
    )


def _anonymised_events(trace: Trace, words: _ReplacementTexts) -> ColumnTable:
    hidden: dict[str, Callable[[str], str]] = {name: str for name in KEPT}
    hidden["scalars"] = _numbers_only
    hidden["stack"] = lambda text: words.replacement("source", text)
    hidden["module"] = lambda text: words.replacement("module", text)
    events = _replace_texts(trace, trace.events, words, hidden)
    pairs = np.stack([trace.events["kind"].astype(np.int64), trace.events["name"]])
    used, at = np.unique(pairs, axis=1, return_inverse=True)
    named = [
        _anonymised_name(Event(kind), _text_of_number(trace, name), words)
        for kind, name in used.T.tolist()
    ]
    numbers = np.array([words.string_number(text) for text in named] or [0], np.int32)
    return events.replace(name=numbers[at.reshape(-1)])


def _anonymised_name(kind: Event, text: str, words: _ReplacementTexts) -> str:
    """Name of an event: unchanged if it comes from public software, otherwise its replacement."""
    if text.startswith(MODULE):
        return MODULE + words.replacement("module", text.removeprefix(MODULE))
    if kind != Event.PYTHON and PUBLIC.fullmatch(text):
        return text
    library = TEMPLATE.fullmatch(text)
    if library and kind == Event.KERNEL:
        return f"{library[1]}<{words.replacement('arguments', text)}>"
    return words.replacement(WORDS.get(kind, "event"), text)


def _anonymised_collectives(trace: Trace, words: _ReplacementTexts) -> ColumnTable:
    return _replace_texts(
        trace,
        trace.collectives,
        words,
        {
            "name": str,
            "dtype": str,
            "sent_splits": str,
            "ranks": str,
            "group": lambda text: _anonymised_group_name(text, words),
        },
    )


def _replace_texts(
    trace: Trace,
    table: ColumnTable,
    words: _ReplacementTexts,
    replacements: dict[str, Callable[[str], str]],
) -> ColumnTable:
    """Copy of a table in which the texts of some columns are replaced by a function per column."""
    columns: dict[str, NDArray[np.int32]] = {}
    for column, replacement in replacements.items():
        used, at = np.unique(table[column], return_inverse=True)
        texts = [
            -1 if number < 0 else words.string_number(replacement(_text_of_number(trace, number)))
            for number in used
        ]
        columns[column] = np.array(texts or [-1], np.int32)[at]
    left = [c for c, of in TABLES[table.kind].items() if "`strings`" in of.meaning]
    assert table.kind == "events" or set(left) <= columns.keys()  # noqa: S101  none is forgotten
    return table.replace(**columns)


def _text_of_number(trace: Trace, number: int) -> str:
    return trace.strings[number] if number >= 0 else ""


def _numbers_only(text: str) -> str:
    """Values of an operator's inputs if all are numbers; otherwise "", as they may be names."""
    try:
        values = json.loads(text)
    except ValueError:
        return ""
    return (
        text if not any(isinstance(v, str) and not _is_number(v) for v in _flatten(values)) else ""
    )


def _flatten(value: object) -> list[object]:
    if isinstance(value, list):
        return [v for one in value for v in _flatten(one)]
    return list(value) if isinstance(value, dict) else [value]


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"|True|False|None|[\[\]0-9eE+., -]*|(-?inf|nan)", text))


def _anonymised_group_name(name: str, words: _ReplacementTexts) -> str:
    return name if name.isdigit() else words.replacement("group", name)


def _anonymised_track(track: Track) -> Track:
    return track._replace(name=track.name if THREAD.fullmatch(track.name) else "")


def _anonymised_process(process: FileHeader, words: _ReplacementTexts) -> FileHeader:
    groups = tuple(
        ProcessGroup(_anonymised_group_name(g.name, words), g.ranks, g.backend)
        for g in process.groups
    )
    return process._replace(file=f"rank{process.rank}", groups=groups)
