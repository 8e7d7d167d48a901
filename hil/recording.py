"""Recordings: measured samples stored in a file.

A file is gzip of JSON lines: one header line, then one line per sample. The header names driver,
device, host, date and versions. It says if the recording is complete, and holds a checksum of the
lines that follow. Equal samples give equal bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..sim.errors import DriverFault, RecordingError
from .sample import CLOCKS, METRICS, Sample

SCHEMA = 1
FORM = "foretrace-recording"
SUFFIX = ".rec.gz"
LARGEST = 1 << 28  # bytes of a recording once unpacked


class FailedOp(NamedTuple):
    """Op that was requested but could not be measured: signature, context, and the fault."""

    signature: str
    context: str
    fault: str


@dataclass(frozen=True)
class Recording:
    """Samples of one driver on one device.

    Parameters
    ----------
    driver, device, host : driver and device that measured, and host name of the machine
    date : date and time in UTC, ISO 8601
    versions : versions of the software between the device and this process, by name
    samples : samples in the order they were measured
    ended : why the measurement stopped early; "" for a complete recording
    note : free text for the reader
    spec : settings the driver was opened with
    failed : ops that failed on the device; other ops are not affected

    Examples
    --------
    >>> ns = np.array([3.0, 1.0, 2.0])
    >>> samples = (Sample("host:idle", ns, "wall"),)
    >>> kept = Recording("host", "cpu0", "box", "2026-01-31T12:00:00Z", {}, samples)
    >>> kept.write(Path("one.rec.gz"))
    >>> read(Path("one.rec.gz")).samples[0].median
    2.0
    """

    driver: str
    device: str
    host: str
    date: str
    versions: Mapping[str, str]
    samples: tuple[Sample, ...]
    ended: str = ""
    note: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)
    failed: tuple[FailedOp, ...] = ()

    @property
    def source(self) -> str:
        """Provenance in one line: driver, device, host, date, clocks."""
        clocks = "+".join(sorted({s.clock for s in self.samples})) or "no"
        part = "" if not self.ended else f", partial: {self.ended}"
        return (
            f"recording:{self.driver} {self.device} on {self.host}, {self.date[:10]}, "
            f"{clocks} clock{part}"
        )

    @property
    def fault(self) -> DriverFault | None:
        """DriverFault that ended the recording early; None if complete or ended by a time limit.

        >>> Recording("odd", "", "", "", {}, (), ended="died: the agent ended (code 7)").fault.kind
        'died'
        """
        kind, _, rest = self.ended.partition(": ")
        return DriverFault(kind, rest) if rest and " " not in kind else None

    def write(self, path: Path) -> None:
        """Write the recording to a file atomically: a complete file is renamed into place."""
        body = b"".join(_json_line(sample_to_json(s)) for s in self.samples)
        head: dict[str, Any] = {"form": FORM, "schema": SCHEMA}
        head |= {k: v for k, v in vars(self).items() if k != "samples" and (k != "failed" or v)}
        head |= {"count": len(self.samples), "sha256": hashlib.sha256(body).hexdigest()}
        partial = path.with_name(path.name + ".part")
        partial.write_bytes(gzip.compress(_json_line(head) + body, 9, mtime=0))
        partial.replace(path)

    def write_into(self, folder: Path) -> Path:
        """Write the recording into ``folder`` as a new file ``DRIVER-DATE.rec.gz``.

        Returns its path.
        """
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{self.driver}-{self.date.replace(':', '')}"
        others = sum(1 for _ in folder.glob(f"{name}*{SUFFIX}"))  # of the same second
        path = folder / f"{name}{f'-{others + 1}' if others else ''}{SUFFIX}"
        self.write(path)
        return path


def read(path: Path) -> Recording:
    """Read a recording from a file and verify its checksum and schema version.

    Raises
    ------
    RecordingError
        The file is truncated, changed, not a recording, or of a newer schema.
    """
    first, _, body = _decompress(path).partition(b"\n")
    head = _parse_header(path, first)
    if hashlib.sha256(body).hexdigest() != head.pop("sha256", ""):
        raise RecordingError(f"{path}: its checksum does not fit its lines; copy it again")
    try:
        samples = tuple(sample_from_json(json.loads(line)) for line in body.splitlines())
        if len(samples) != head.pop("count"):
            raise ValueError("a line is missing")
        failed = tuple(FailedOp(*row) for row in head.pop("failed", ()))
        return Recording(samples=samples, failed=failed, **head)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError(f"{path}: is damaged ({error}); record again") from error


def _decompress(path: Path) -> bytes:
    try:
        with gzip.open(path) as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError as error:
        raise RecordingError(f"{path}: does not exist; record it first") from error
    except (OSError, EOFError, zlib.error) as error:
        why = f"is truncated or not a recording ({error}); copy it again"
        raise RecordingError(f"{path}: {why}") from error
    if len(data) > LARGEST:
        raise RecordingError(
            f"{path}: holds more than {LARGEST >> 20} MiB; this is not a recording"
        )
    return data


def _parse_header(path: Path, line: bytes) -> dict[str, Any]:
    try:
        head = json.loads(line)
    except ValueError as error:
        raise RecordingError(
            f"{path}: is not a recording of foretrace ({error}); give one of 'hil record'"
        ) from error
    if not isinstance(head, dict) or head.pop("form", "") != FORM:
        raise RecordingError(f"{path}: is not a recording of foretrace; give one of 'hil record'")
    schema = head.pop("schema", None)
    if schema != SCHEMA:
        raise RecordingError(
            f"{path}: has schema {schema}, this version reads {SCHEMA}; record it again"
        )
    return head


def sample_to_json(sample: Sample) -> dict[str, Any]:
    """Fields of a sample as a JSON object; fields equal to their default are omitted."""
    fields = asdict(sample) | {"ns": [round(float(x), 2) for x in sample.ns]}
    usual = {"metric": "completion", "context": "warm", "start": 0, "flags": (), "facts": {}}
    return {k: v for k, v in fields.items() if k not in usual or v != usual[k]}


def sample_from_json(fields: dict[str, Any]) -> Sample:
    """Build a sample from its JSON fields; TypeError or ValueError if they are malformed.

    >>> sample_from_json({"signature": "host:idle", "ns": [3.0], "clock": "wall"}).median
    3.0
    """
    fields["ns"] = np.asarray(fields["ns"], np.float64)
    fields["flags"] = tuple(fields.get("flags", ()))
    sample = Sample(**fields)
    if sample.clock not in CLOCKS or sample.metric not in METRICS or not len(sample.ns):
        raise ValueError(
            f"clock {sample.clock!r}, metric {sample.metric!r}, {len(sample.ns)} times"
        )
    if not (np.isfinite(sample.ns) & (sample.ns >= 0)).all():
        raise ValueError(f"{sample.signature} has an impossible time")
    return sample


def _json_line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode() + b"\n"
