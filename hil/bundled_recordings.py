"""Recordings bundled with the package; a scenario names one as ``foretrace:NAME``."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from ..sim.errors import RecordingError
from .recording import SUFFIX

HOME = Path(__file__).with_name("recordings")
PREFIX = "foretrace:"


def bundled_names() -> list[str]:
    """Names of the bundled recordings, sorted."""
    return sorted(p.name.removesuffix(SUFFIX) for p in HOME.glob(f"*{SUFFIX}"))


def recording_path(name: str) -> Path:
    """Path of a recording: a bundled one for ``foretrace:NAME``, else the path as given.

    >>> recording_path("mine.rec.gz").name
    'mine.rec.gz'
    >>> recording_path("foretrace:hots")
    Traceback (most recent call last):
    foretrace.sim.errors.RecordingError: no recording 'foretrace:hots'; ...
    """
    if not name.startswith(PREFIX):
        return Path(name)
    path = HOME / (name.removeprefix(PREFIX) + SUFFIX)
    if path.parent != HOME or not path.is_file():
        near = get_close_matches(name.removeprefix(PREFIX), bundled_names(), 1)
        hint = (
            f"did you mean '{PREFIX}{near[0]}'?"
            if near
            else f"there are: {', '.join(bundled_names())}"
        )
        raise RecordingError(f"no recording {name!r}; {hint}")
    return path
