"""JSON of nccl-tests (``-J``) and rccl-tests (``-Z json``), as sections of a log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .log_sections import LogSection, name_in


def json_sections(text: str) -> list[LogSection] | None:
    """Sections of a JSON document, or of one JSON record a line; None for any other text.

    >>> json_sections('[{"name": "AllReduce", "ranks": 8, "nodes": 1, "size": 1024, "inPlace": 0,'
    ...               ' "time": "16.0", "wrong": "0"}]')[0].rows
    [(1024.0, 1.6e-05)]
    """
    records = _records(text)
    if records is None:
        return None
    sections: dict[tuple[str, int, int], LogSection] = {}
    for record in records:
        for row, about in _rows(record):
            name, ranks, nodes = about
            section = sections.setdefault(about, LogSection(1, name, ranks, nodes))
            _add(row, section)
    return [s for s in sections.values() if s.has_rows]


def _records(text: str) -> list[Any] | None:
    """Values of a JSON text: a document, its list, or a value on each line."""
    if text.lstrip("\ufeff \n\r\t")[:1] not in ("{", "["):
        return None
    try:
        values = json.loads(text)
    except ValueError:
        try:
            values = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            return None
    return values if isinstance(values, list) else [values]


def _rows(record: Any) -> Iterator[tuple[Mapping[str, Any], tuple[str, int, int]]]:
    """Rows of a record, each with its collective, ranks and machines."""
    if not isinstance(record, dict):
        return
    if isinstance(record.get("results"), list):  # nccl-tests 2.17
        about = _about_nccl_tests(record)
        for row in record["results"]:
            if isinstance(row, dict):
                yield _flat(row), about
    elif isinstance(record.get("benchmark"), list):  # rows by size
        about = _about_nccl_tests(record)
        for table in record["benchmark"]:
            for size, row in table.items() if isinstance(table, dict) else ():
                if isinstance(row, dict):
                    yield {"size": size, "time": row.get("oop_time"),
                           "wrong": row.get("oop_error")}, about  # fmt: skip
    elif "inPlace" in record and not _count(record["inPlace"]):  # rccl-tests
        about = (name_in(str(record.get("name", ""))), _count(record.get("ranks")),
                 _count(record.get("nodes")))  # fmt: skip
        yield record, about


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of nccl-tests 2.17 with its out-of-place time."""
    measured = row.get("out_of_place")
    measured = measured if isinstance(measured, dict) else {}
    return {
        "size": row.get("size"),
        "time": measured.get("time"),
        "wrong": measured.get("nwrong"),
    }


def _about_nccl_tests(record: Mapping[str, Any]) -> tuple[str, int, int]:
    """Collective, ranks and machines of a document; "" and 0 where it lacks them."""
    args = record.get("args")
    program = str(args[0]) if isinstance(args, list) and args else str(args or "")
    config = record.get("config")
    devices = config.get("devices") if isinstance(config, dict) else None
    listed = [d for d in devices if isinstance(d, dict)] if isinstance(devices, list) else []
    hosts = {d.get("hostname", d.get("host")) for d in listed}
    return name_in(program.rpartition("/")[2]), len(listed), len(hosts)


def _add(row: Mapping[str, Any], section: LogSection) -> None:
    try:
        size, spent = float(row["size"]), float(row["time"])
    except (KeyError, TypeError, ValueError):
        section.cut += 1
        return
    wrong = str(row.get("wrong", 0))
    if not (0 < spent < 1e12 and 0 <= size < 1e18):
        section.cut += 1
    elif wrong not in ("N/A", "None") and _count(wrong):
        section.wrong += 1
    else:
        section.rows.append((size, spent * 1e-6))


def _count(value: Any) -> int:
    """A count that may be quoted; 0 if it is none."""
    try:
        return int(float(value))
    except (TypeError, ValueError, OverflowError):
        return 0
