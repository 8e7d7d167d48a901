"""Ranks of Kineto files: as recorded, or guessed from the names of files and processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...sim.errors import TraceError
from ..event_columns import ON_GPU, ON_HOST
from ..recorded_events import GUESSED, FileHeader
from .kineto_columns import KinetoColumns
from .rank_names import ranks_from_names


class RanksOfFile(NamedTuple):
    """Headers of the ranks of one file, and the rank of each track that is not of the first."""

    headers: tuple[FileHeader, ...]
    rank_of_track: dict[int, int]


def number_files(
    headers: Sequence[FileHeader], files: Sequence[Path]
) -> tuple[list[FileHeader], str]:
    """Headers with the ranks of their files, and a note if ranks are guessed.

    The rank of a header is -1 if the file does not state it; the names then tell it.
    """
    unknown = [i for i, header in enumerate(headers) if header.rank < 0]
    found = list(headers)
    guessed = ranks_from_names([files[i].name for i in unknown])
    for i, rank in zip(unknown, guessed, strict=True):
        found[i] = headers[i]._replace(rank=rank)
    if len(headers) == 1 or not unknown:
        return found, ""
    named = ", ".join(
        f"{found[i].rank} {files[i].name}" for i in sorted(unknown, key=lambda i: found[i].rank)
    )
    return found, f"{GUESSED} from the names of the files: {named}"


def split_file(columns: KinetoColumns, header: FileHeader) -> tuple[RanksOfFile, str]:
    """Ranks of a file that holds the processes of several, as their marks tell; and a note."""
    marks = _marks_of_tracks(columns)
    marked = sorted({mark for mark in marks.values() if mark})
    if len(marked) < 2:
        return RanksOfFile((header,), {}), ""
    ranks = dict(zip(marked, ranks_from_names(marked), strict=True))
    _refuse_unmarked_work(columns, marks)
    of_track = {t: ranks[mark] for t, mark in marks.items() if mark}
    order = sorted(marked, key=ranks.__getitem__)
    headers = tuple(header._replace(rank=ranks[m], file=f"{header.file} [{m}]") for m in order)
    named = ", ".join(f"{ranks[m]} {m}" for m in order)
    return RanksOfFile(headers, of_track), f"{GUESSED} from the processes of {header.file}: {named}"


def _marks_of_tracks(columns: KinetoColumns) -> dict[int, str]:
    """Mark of the process of each track of the file; "" if it has none."""
    return {
        number: columns.processes.mark(pid)
        for number, (file, pid, _) in enumerate(columns.tracks.numbers)
        if file == columns.number
    }


def _refuse_unmarked_work(columns: KinetoColumns, marks: dict[int, str]) -> None:
    """Refuse a file of several ranks in which a process with work has no rank."""
    tracks = list(columns.tracks.numbers)
    for table in columns.tables["events"]:
        work = np.isin(table["kind"], (*ON_HOST, *ON_GPU))
        for track in np.unique(table["track"][work]).tolist():
            if not marks[track]:
                raise TraceError(
                    f"{columns.file}: process {tracks[track][1]} has no rank, but other processes "
                    "of the file have; mark it like them, such as '[TP01] 50'"
                )


def refuse_files_without_work(columns: Sequence[KinetoColumns]) -> None:
    """Refuse a file without GPU work among files with it.

    Raises
    ------
    TraceError
        A file has host events only; the message names it.
    """
    with_work = [c for c in columns if _has_gpu_work(c)]
    for one in columns if with_work else ():
        if not _has_gpu_work(one):
            raise TraceError(
                f"{one.file}: has no GPU work, but {with_work[0].file} has; leave it out if its "
                "process uses no GPU, such as the front end of a server, or record its rank again"
            )


def _has_gpu_work(columns: KinetoColumns) -> bool:
    return any(bool(np.isin(t["kind"], ON_GPU).any()) for t in columns.tables["events"])
