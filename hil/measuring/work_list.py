"""A work list: which ops a driver shall time, how surely, and what it may take for that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...sim.errors import RecordingError
from ...sim.signature import parse
from ..sample import Request

FORM, SCHEMA = "foretrace-work", 1


@dataclass(frozen=True)
class WorkList:
    """What is to be measured.

    Parameters
    ----------
    driver : its name
    requests : each op with the repeats of one batch
    spec : what the driver is opened with
    starts : of the process, at least
    most_starts : of the process, where the bar needs more
    blocks : of one start, at most; in each every op has one batch, in random order
    bar : the accuracy that the numbers shall judge; a median counts as known at a quarter of it
    seconds : for all of it
    bytes : that one batch of one op may touch
    rate : B/s that may be moved on average; 0 for no limit
    busy : share of one core that others may use; a device with more is refused
    seed : of the order
    note : for the recording

    Examples
    --------
    >>> work = WorkList("host", (Request("copy:h2h uint8[4096]", 5),))
    >>> WorkList.read_text(work.text(), "here") == work
    True
    """

    driver: str
    requests: tuple[Request, ...]
    spec: Mapping[str, Any] = field(default_factory=dict)
    starts: int = 3
    most_starts: int = 3
    blocks: int = 8
    bar: float = 0.1
    seconds: float = 170.0
    bytes: float = 64e9
    rate: float = 0.0
    busy: float = 0.5
    seed: int = 0
    note: str = ""

    def __post_init__(self) -> None:
        keys = [r.key for r in self.requests]
        twice = {k for k in keys if keys.count(k) > 1} if len(set(keys)) < len(keys) else ()
        if twice or not keys:
            raise ValueError(f"a work list asks {sorted(twice) or 'nothing'}; ask each op once")

    def text(self) -> str:
        """As a file."""
        return json.dumps({"form": FORM, "schema": SCHEMA, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def read_text(cls, text: str, place: str) -> WorkList:
        """From a file's text.

        Raises
        ------
        RecordingError
            It is no work list of this version.
        """
        try:
            told = json.loads(text)
            if (told.pop("form"), told.pop("schema")) != (FORM, SCHEMA):
                raise ValueError("of another form or schema")
            asked = [{**r, "preceding": tuple(r["preceding"])} for r in told.pop("requests")]
            return cls(requests=tuple(Request(**r) for r in asked), **told)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RecordingError(
                f"{place}: is no work list ({error}); write one with 'foretrace hil plan'"
            ) from error

    @classmethod
    def read(cls, path: Path) -> WorkList:
        """From a file."""
        try:
            return cls.read_text(path.read_text(), str(path))
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror}; give a work list") from error


def touched(request: Request) -> int:
    """Bytes of the operands of one batch: a lower bound of what it moves.

    >>> touched(Request("copy:h2h uint8[4096]", 5))
    20480
    """
    return request.n * parse(request.signature).bytes
