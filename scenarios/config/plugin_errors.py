"""Errors raised inside a plug-in during a run: which plug-in, and which line."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import TracebackType

PREFIX = "foretrace_plugin_"  # of the name of the module made from a plug-in's file


def _bad_yield_message(error: BaseException) -> str:
    """Message about a plug-in's process that did not yield an event; "" for other errors.

    File and line are parsed from the text of SimPy's error, the only place that has them.
    """
    said = re.search(r'File "(.+)", line (\d+)(?:.|\n)*Invalid yield value "(.*)"', str(error))
    files = {getattr(m, "__file__", "") for n, m in sys.modules.items() if n.startswith(PREFIX)}
    if said is None or said[1] not in files:
        return ""
    return (
        f"plug-in '{Path(said[1]).name}' fails in line {said[2]}: it yields {said[3]!r}; "
        "yield sim.wait(seconds) or another event"
    )


def message_naming_plugin(error: BaseException) -> str:
    """Message that names the plug-in and line of an unexpected error; "" for no plug-in."""
    told, step = _bad_yield_message(error), error.__traceback__
    if error.__cause__ is not None:  # SimPy raises the error of a process again
        told = told or message_naming_plugin(error.__cause__)
    while step is not None and not told:
        name = step.tb_frame.f_globals.get("__name__", "")
        if name.startswith(PREFIX):
            file = Path(step.tb_frame.f_code.co_filename).name
            where = f"plug-in '{file}' fails in line {step.tb_lineno}"
            told = f"{where}: {type(error).__name__}: {error}; fix it, or remove it from 'plugins'"
        step = step.tb_next
    return told


def traceback_inside_plugin(error: BaseException) -> TracebackType | None:
    """Traceback of an error from its first frame in a plug-in; None if it has no such frame."""
    step = error.__traceback__
    while step is not None and not step.tb_frame.f_globals.get("__name__", "").startswith(PREFIX):
        step = step.tb_next
    return step or (
        traceback_inside_plugin(error.__cause__) if error.__cause__ is not None else None
    )
