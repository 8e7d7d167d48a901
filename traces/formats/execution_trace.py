"""PyTorch execution traces (ET): inputs of operators that the Kineto file of the same run lacks.

An execution trace has no times, so it cannot be read alone. It holds the shapes, element types and
values of every operator's inputs, even if the profiler ran without ``record_shapes``. Both files
use the same numbers for operators (``rf_id``, ``Record function id``).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...sim.errors import TraceError
from ..trace import Trace
from .gzipped import open_maybe_gzipped

LARGEST = 2 * 2**30  # bytes


class _Attribute(msgspec.Struct):
    name: str
    value: Any = None


class _Inputs(msgspec.Struct):
    values: list[Any] = []
    shapes: list[Any] = []
    types: list[str] = []


class _Node(msgspec.Struct):
    """One operator; up to schema 1.0.1 its inputs are fields of its own, later they are grouped."""

    name: str
    rf_id: int | None = None
    inputs: _Inputs | list[Any] = []
    input_shapes: list[Any] = []
    input_types: list[str] = []
    attrs: list[_Attribute] = []

    @property
    def function(self) -> int:
        """Number that links it to the profiler's record of the operator; 0 if there is none."""
        attributes = [a.value for a in self.attrs if a.name == "rf_id"]
        number = attributes[0] if attributes else self.rf_id
        return number if isinstance(number, int) else 0

    @property
    def all_inputs(self) -> _Inputs:
        """Inputs of the operator, from either of the two forms."""
        if isinstance(self.inputs, _Inputs):
            return self.inputs
        return _Inputs(self.inputs, self.input_shapes, self.input_types)


class _ExecutionTraceFile(msgspec.Struct):
    schema: str
    pid: int
    nodes: list[_Node]


class OperatorTexts(NamedTuple):
    """Inputs of an operator in the form that Kineto writes: JSON lists."""

    shapes: str
    dtypes: str
    scalars: str


def add_execution_traces(trace: Trace, paths: Iterable[str | Path]) -> Trace:
    """Add shapes, element types and values that the profiler did not record to a trace.

    Parameters
    ----------
    trace : Trace
        Trace whose operators have a ``Record function id`` (PyTorch 2.1 and later).
    paths : an execution trace for each process, of the same run

    Raises
    ------
    TraceError
        A file is damaged, of another process, or of another run (an operator has another name
        there).

    Examples
    --------
    >>> import tempfile
    >>> trace = Trace.of(strings=("aten::mm",), name=[0], function=[7], kind=[0], ts=[0], dur=[1])
    >>> inputs = {"values": [[1]], "shapes": [[2, 3]], "types": ["Tensor(float)"]}
    >>> node = {"name": "aten::mm", "inputs": inputs, "attrs": [{"name": "rf_id", "value": 7}]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "et.json"
    ...     _ = path.write_text(json.dumps({"schema": "1.1.1", "pid": 0, "nodes": [node]}))
    ...     joined = add_execution_traces(trace, [path])
    >>> joined.text("shapes").tolist(), joined.text("dtypes").tolist()
    (['[[2,3]]'], ['["float"]'])
    """
    texts = {text: number for number, text in enumerate(trace.strings)}
    columns = {name: trace.events[name].copy() for name in OperatorTexts._fields}
    for path in map(Path, paths):
        document = _read_execution_trace(path)
        rank = _rank_of_process(trace, document.pid, path)
        _fill_absent_cells(trace, rank, document, path, columns, texts)
    return replace(trace, events=trace.events.replace(**columns), strings=tuple(texts))


def _fill_absent_cells(
    trace: Trace,
    rank: int,
    document: _ExecutionTraceFile,
    path: Path,
    columns: dict[str, NDArray[Any]],
    texts: dict[str, int],
) -> None:
    """Fill the missing cells of `columns`, in the rows of one rank, from its execution trace."""
    nodes = {node.function: node for node in document.nodes if node.function}
    events, matched = trace.events, 0
    for row in np.flatnonzero((events["rank"] == rank) & (events["function"] > 0)).tolist():
        node = nodes.get(int(events["function"][row]))
        if node is None:
            continue  # outside the steps that the observer saw
        name = trace.strings[int(events["name"][row])]
        if node.name != name:
            raise TraceError(
                f"{path}: operator {node.function} is {node.name!r} there and {name!r} in the "
                "trace; give the execution trace that was taken in the same run"
            )
        matched += 1
        for column, text in _operator_texts(node)._asdict().items():
            if columns[column][row] < 0:
                columns[column][row] = texts.setdefault(text, len(texts))
    if not matched:
        raise TraceError(
            f"{path}: none of its {len(nodes)} operators is in the trace of rank {rank}; take both "
            "in the same steps, with PyTorch 2.1 or later"
        )


def _operator_texts(node: _Node) -> OperatorTexts:
    inputs = node.all_inputs
    tensors = [_element_type(text) for text in inputs.types]
    shapes = [shape if t else [] for shape, t in zip(inputs.shapes, tensors, strict=False)]
    scalars = ["" if t else str(v) for v, t in zip(inputs.values, tensors, strict=False)]
    dtypes = [t or "Scalar" for t in tensors]
    return OperatorTexts(*(json.dumps(x, separators=(",", ":")) for x in (shapes, dtypes, scalars)))


def _element_type(text: str) -> str:
    """Element type of a tensor; "" for other inputs.

    >>> _element_type("Tensor(c10::Half)"), _element_type("Int")
    ('c10::Half', '')
    """
    return text[7:-1] if text.startswith("Tensor(") else ""


def _rank_of_process(trace: Trace, pid: int, path: Path) -> int:
    """The one rank of the trace with this process id."""
    ranks = {track.rank for track in trace.tracks if track.process == str(pid)}
    if len(ranks) != 1:
        known = sorted({track.process for track in trace.tracks if track.process.isdigit()})
        raise TraceError(
            f"{path}: is of process {pid}, but {'no' if not ranks else 'more than one'} rank of "
            f"the trace has this process (it has {', '.join(known)}); give files of the same run, "
            "one per rank"
        )
    return ranks.pop()


def _read_execution_trace(path: Path) -> _ExecutionTraceFile:
    try:
        with open_maybe_gzipped(path) as stream:
            text = stream.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise TraceError(f"{path}: more than {LARGEST >> 30} GiB of text; record fewer steps")
        return msgspec.json.decode(text, type=_ExecutionTraceFile)
    except OSError as e:
        raise TraceError(f"{path}: {e.strerror or e}; correct the path or copy it again") from e
    except (EOFError, zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise TraceError(
            f"{path}: {_decoding_error_text(e)}; the file is damaged or is not an execution "
            "trace of PyTorch; record it again"
        ) from e


def _decoding_error_text(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8"
    return "is nested too deeply" if isinstance(error, RecursionError) else str(error)
