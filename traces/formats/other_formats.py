"""Formats of other programs that look like a profiler trace: each is named, with what to use."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .kineto_schema import KinetoEvent

TORCH = "record the step with torch.profiler and give its export_chrome_trace file"
_HEAD = 2**16  # bytes of a file that are searched
_SHAPES: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), text)
    for pattern, text in (
        (rb"\n.{0,200}?(?:/device:|/host:|Task Environment)",
         f"is an XPlane profile (xplane.pb) of JAX or TensorFlow, which is not read; {TORCH}"),
        (rb"SQLite format 3\0",
         f"is an SQLite database, as of Nsight Systems or rocprof, which is not read; {TORCH}"),
        (rb"PK\x03\x04", "is a zip archive; unpack it and give the .json file in it"),
        (rb"\x28\xb5\x2f\xfd", "is compressed with zstd; unpack it (zstd -d)"),
        (rb"\x80[\x02-\x05]",
         f"is a pickle, as of torch's memory snapshot, which has no ops; {TORCH}"),
        (rb"\s*<", "is HTML or XML, as of torch's memory timeline; give the profiler's "
                   ".json or .json.gz"),
        (rb'\s*\{\s*"rocprofiler-sdk-tool"',
         f"is JSON of rocprofv3 (rocprofiler-sdk), which names no operators; {TORCH}"),
        (rb"\s*\[\s*\[", "is a list of numbers, as of torch's memory timeline, which has no ops; "
                         f"{TORCH}"),
        (rb'\s*\{\s*"(?:segments|device_traces)"',
         f"is a memory snapshot of torch, which has no ops; {TORCH}"),
    )
)  # fmt: skip


def other_format_of_text(text: bytes) -> str:
    r"""Name of the other format that a text begins like, and what to use instead; "" if none.

    >>> other_format_of_text(b"PK\x03\x04...")
    'is a zip archive; unpack it and give the .json file in it'
    """
    head = text[:_HEAD]
    return next((name for shape, name in _SHAPES if shape.match(head)), "")


def other_format_of_events(events: Sequence[KinetoEvent]) -> str:
    """Name of another writer of Chrome JSON, and what to use instead; "" if none.

    >>> other_format_of_events([KinetoEvent("X", name="add", pid="CUDA functions")])[:62]
    'is a trace of torch.autograd.profiler before PyTorch 1.8.1, wh'
    """
    if any(e.cat and e.ph == "X" for e in events):
        return ""
    phases = {e.ph for e in events}
    if "X" in phases:
        return _uncategorised(events)
    if phases & {"b", "e"} and not phases & {"B", "E"}:
        return ("holds only asynchronous events (ph b and e: begin and end of an operation, joined "
                "by id), as NCCL's profiler plug-in writes them; they contain no kernels and no "
                f"operators: {TORCH}")  # fmt: skip
    return ""


def _uncategorised(events: Sequence[KinetoEvent]) -> str:
    """Name of a writer whose events have no category."""
    pids = {e.pid for e in events}
    if pids & {"CPU functions", "CUDA functions"}:
        return ("is a trace of torch.autograd.profiler before PyTorch 1.8.1, which does not name "
                f"the launch of a kernel; {TORCH}")  # fmt: skip
    if any(e.name == "process_name" and str(e.args.name).startswith("/device:") for e in events):
        return ("is a trace of JAX or TensorFlow (processes /device:…), whose events have no "
                f"category and no launch; {TORCH}")  # fmt: skip
    return ""
