"""Work lists: ops for a driver to time, the precision wanted, and limits on time and bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...sim.errors import RecordingError
from ...sim.facts.signature import parse_signature
from ..sample import Request

FORM, SCHEMA = "foretrace-work", 1


@dataclass(frozen=True)
class WorkList:
    """Ops to be measured by one driver, with precision and limits.

    Parameters
    ----------
    driver : registered name
    requests : each op with the repeats of one batch
    spec : what the driver is opened with
    starts : process starts, at least
    most_starts : process starts, at most, where the bar needs more
    blocks : blocks per start, at most; in each every op has one batch, in random order
    bar : relative error that the data shall resolve; half-widths are brought below a quarter of it
    seconds : time limit of the whole list
    bytes : limit of bytes that one batch of one op touches
    rate : limit of B/s moved on average; 0 for no limit
    busy : cores that other processes may keep busy; a busier machine is refused
    seed : of the order of ops
    note : free text for the recording

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
            raise ValueError(
                f"a work list requests {sorted(twice) or 'nothing'}; request each op once"
            )

    def text(self) -> str:
        """JSON text of the list."""
        return json.dumps({"form": FORM, "schema": SCHEMA, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def read_text(cls, text: str, place: str) -> WorkList:
        """Work list from JSON text; ``place`` names it in errors.

        Raises
        ------
        RecordingError
            It is no work list of this version.
        """
        try:
            fields = json.loads(text)
            if (fields.pop("form"), fields.pop("schema")) != (FORM, SCHEMA):
                raise ValueError("of another form or schema")
            requests = [{**r, "preceding": tuple(r["preceding"])} for r in fields.pop("requests")]
            return cls(requests=tuple(Request(**r) for r in requests), **fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RecordingError(
                f"{place}: is not a work list ({error}); write one with 'foretrace hil plan'"
            ) from error

    @classmethod
    def read(cls, path: Path) -> WorkList:
        """Work list from a file."""
        try:
            return cls.read_text(path.read_text(), str(path))
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror}; give a work list") from error


def touched_bytes(request: Request) -> int:
    """Bytes of operands over all repeats of a batch: a lower bound of the bytes moved.

    >>> touched_bytes(Request("copy:h2h uint8[4096]", 5))
    20480
    """
    return request.n * parse_signature(request.signature).bytes
