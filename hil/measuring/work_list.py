"""Work lists: ops to time with a driver, the required precision, and limits of time and bytes."""

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
    """Ops that one driver is to measure, with the required precision and limits.

    Parameters
    ----------
    driver : registered name of the driver
    requests : ops to measure, each with the number of repeats per batch
    spec : settings the driver is opened with
    starts : minimum number of process starts
    most_starts : maximum number of process starts, used if the required precision is not reached
        before
    blocks : maximum number of blocks per start; in each block every op has one batch, in random
        order
    bar : relative error that the samples must be able to resolve; measuring continues until
        half-widths are below a quarter of it
    seconds : time limit of the complete list, in s
    bytes : maximum number of bytes that one batch of an op may touch
    rate : maximum average rate of bytes moved, in B/s; 0 for no limit
    busy : number of cores that other processes may use; on a busier machine measuring is refused
    seed : random seed of the order of ops
    note : free text that is copied to the recording

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
        if twice:
            raise ValueError(
                f"a work list has {sorted(twice)} more than once; request each op once"
            )
        if not keys:
            raise ValueError("a work list has no ops; request each op once")

    def text(self) -> str:
        """JSON text of the work list."""
        return json.dumps({"form": FORM, "schema": SCHEMA, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def read_text(cls, text: str, place: str) -> WorkList:
        """Parse a work list from JSON text; ``place`` is the prefix of error messages.

        Raises
        ------
        RecordingError
            The text is not a work list of this version.
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
        """Read a work list from a file."""
        try:
            return cls.read_text(path.read_text(), str(path))
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror}; give a work list") from error


def touched_bytes(request: Request) -> int:
    """Total size of the operands over all repeats of a batch, in B; a lower bound of bytes moved.

    >>> touched_bytes(Request("copy:h2h uint8[4096]", 5))
    20480
    """
    return request.n * parse_signature(request.signature).bytes
