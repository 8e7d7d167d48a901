"""Runs that are viewed: their tables of ops, opened when they are first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from ...sim.errors import ScenarioError
from ...sim.units import PICOSECOND, Seconds, seconds
from .pyramid import Say, pyramid_folder
from .tiles import Lane, Tile, ViewedTable

OPEN_LANES = 60  # that are all unfolded from the start
OPEN_RANKS = 200  # whose machines are
LONGEST = 100  # letters of a text that is searched for


@dataclass(frozen=True)
class ViewedRun:
    """A run folder with tables of ops.

    Parameters
    ----------
    name : as it is called on the page
    folder : Path
    variants : whose ops were kept, the base first
    """

    name: str
    folder: Path
    variants: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path) -> ViewedRun:
        """A run by its folder.

        Raises
        ------
        ScenarioError
            No ops of it were kept.
        """
        names = [file.name for file in sorted(folder.glob("ops.*.parquet"))]
        variants = [name.removeprefix("ops.").removesuffix(".parquet") for name in names]
        if not variants:
            raise ScenarioError(
                f"{folder}: has no rows of ops (ops.*.parquet), so there is nothing to view; run "
                "it again with --keep ops"
            )
        variants.sort(key=lambda name: name != "base")
        return cls(f"{folder.parent.name}/{folder.name}", folder, tuple(variants))

    def table(self, variant: str) -> Path:
        """File of a variant's ops."""
        return self.folder / f"ops.{variant}.parquet"


@dataclass(frozen=True)
class OpenedVariant:
    """A variant of a run, opened; its lanes are numbered from ``first_lane`` on the page."""

    name: str
    table: ViewedTable
    first_lane: int


class OpenedRuns:
    """Tables of some runs, each opened once; what the browser asks is answered from them.

    Parameters
    ----------
    runs : one or more
    tick : s
        Of all of them.
    say : is told what takes long
    """

    def __init__(
        self, runs: Sequence[ViewedRun], say: Say = lambda _: None, tick: Seconds = PICOSECOND
    ):
        self.runs, self.tick, self._say = tuple(runs), tick, say
        self._opened: dict[str, ViewedTable] = {}
        self._lock = Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all variants of all runs: ``0.base`` is that of the first."""
        return tuple(f"{i}.{v}" for i, run in enumerate(self.runs) for v in run.variants)

    @property
    def default_variants(self) -> tuple[str, ...]:
        """What is shown unless something is chosen: the first variant of each run."""
        return tuple(f"{i}.{run.variants[0]}" for i, run in enumerate(self.runs))

    def title(self, name: str) -> str:
        """A variant as the page calls it; with its run where there are several."""
        number, _, variant = name.partition(".")
        run = self.runs[int(number)]
        return f"{run.name} {variant}" if len(self.runs) > 1 else variant

    def shown(self, names: Sequence[str]) -> list[OpenedVariant]:
        """Variants by name, opened.

        Raises
        ------
        ValueError
            None, or one that there is not.
        """
        if not names or not {*names} <= {*self.names}:
            raise ValueError(f"show: no such variant; use one of {', '.join(self.names)}")
        found, lanes = [], 0
        for name in dict.fromkeys(names):
            table = self._table(name)
            found.append(OpenedVariant(self.title(name), table, lanes))
            lanes += len(table.lanes)
        return found

    def _table(self, name: str) -> ViewedTable:
        with self._lock:  # a second request waits until the first has read it
            if name not in self._opened:
                number, _, variant = name.partition(".")
                table = self.runs[int(number)].table(variant)
                self._opened[name] = ViewedTable(table, pyramid_folder(table, self._say))
            return self._opened[name]

    def close(self) -> None:
        """Close all tables."""
        with self._lock:
            for table in self._opened.values():
                table.close()
            self._opened.clear()

    def seconds(self, ticks: Any) -> Any:
        """Ticks in seconds."""
        return seconds(ticks, self.tick)

    def ticks(self, time: float) -> int:
        """Seconds in ticks."""
        return round(time / self.tick)


def timeline_facts(runs: OpenedRuns, shown: Sequence[OpenedVariant]) -> dict[str, Any]:
    """What the page's timeline is made with: span in s, rows, and what is drawn, in words."""
    first = min(one.table.first for one in shown)
    last = max(max(one.table.last for one in shown), first + 1)
    return {
        "span": [float(runs.seconds(first)), float(runs.seconds(last))],
        "rows": [row for one in shown for row in _rows(one)],
        "said": " ".join(_drawn_text(one) for one in shown),
    }


def _drawn_text(variant: OpenedVariant) -> str:
    left_out = variant.table.rows - variant.table.ops
    rest = f"; {left_out:,} never ran or did not end" if left_out else ""
    if variant.table.table.places is None:
        rest += "; waits and all ranks of a collective but the first were not kept: run it again"
    more = variant.table.drawn - variant.table.ops
    places = f", and {more:,} waits and further ranks of collectives" if more else ""
    return f"{variant.name}: all of {variant.table.ops:,} ops{places}{rest}."


def _rows(variant: OpenedVariant) -> list[dict[str, Any]]:
    """Rows of a variant: machines where there are several, ranks, streams; folded where many."""
    lanes = variant.table.lanes
    machines = len({lane.machine for lane in lanes})
    ranks = len({_rank_of(lane) for lane in lanes})
    grouped, streams_open = machines > 1 and ranks > 8, len(lanes) <= OPEN_LANES
    rows: list[dict[str, Any]] = [{"name": variant.name, "level": 0}]
    machine_of = _machine_of_rank(lanes)
    number = variant.first_lane
    for machine, there in groupby(lanes, lambda lane: machine_of[_rank_of(lane)]):
        if grouped:
            rows.append({"name": machine or "other", "level": 1, "open": ranks <= OPEN_RANKS})
        for (job, rank), streams in groupby(there, _rank_of):
            name = f"{job} rank {rank}".lstrip()
            rows.append({"name": name, "level": 1 + grouped, "open": streams_open})
            for lane in streams:
                rows.append({"name": f"stream {lane.stream}", "level": 2 + grouped, "lane": number})
                number += 1
    return rows


def _rank_of(lane: Lane) -> tuple[str, int]:
    return lane.job, lane.rank


def _machine_of_rank(lanes: Sequence[Lane]) -> dict[tuple[str, int], str]:
    """Machine of each rank: that of its first stream that names one."""
    found: dict[tuple[str, int], str] = {}
    for lane in lanes:
        found[_rank_of(lane)] = found.get(_rank_of(lane)) or lane.machine
    return found


class DrawnBars:
    """Bars of several variants as columns of one answer; times in s.

    Parameters
    ----------
    lanes : on the page
    first, last : s
    width : pixels
    """

    def __init__(
        self, runs: OpenedRuns, shown: Sequence[OpenedVariant], first: float, last: float,
        width: int, lanes: Sequence[int],
    ):  # fmt: skip
        asked = np.asarray(lanes, np.int64)
        window = runs.ticks(first), runs.ticks(last)
        tiles = [(one, one.table.tile(*window, width, asked - one.first_lane)) for one in shown]
        names, numbers = _numbered_names([tile for _, tile in tiles])
        self.names = names
        self.coarsest = float(runs.seconds(max(1 << tile.level for _, tile in tiles)))
        self.columns = {
            "start": runs.seconds(_joined(tiles, "start")),
            "end": runs.seconds(_joined(tiles, "end")),
            "busy": runs.seconds(_joined(tiles, "busy")),
            "lane": np.concatenate([tile.lane + one.first_lane for one, tile in tiles]).astype(
                np.int32
            ),
            "name": numbers,
            "count": np.minimum(_joined(tiles, "count"), 2**31 - 1).astype(np.int32),
            "kind": _joined(tiles, "kind").astype(np.uint8),
        }

    def body(self) -> bytes:
        """As the browser takes it: length of a JSON head in four bytes, the head, the columns."""
        import json

        head = {"n": len(self.columns["start"]), "names": self.names, "coarsest": self.coarsest}
        text = json.dumps(head).encode()
        text += b" " * (-(4 + len(text)) % 8)  # columns of 8 bytes begin at a multiple of 8
        columns = [np.ascontiguousarray(c).astype(c.dtype.newbyteorder("<")).tobytes()
                   for c in self.columns.values()]  # fmt: skip
        return len(text).to_bytes(4, "little") + text + b"".join(columns)


def _joined(tiles: Sequence[tuple[OpenedVariant, Tile]], column: str) -> Any:
    return np.concatenate([getattr(tile, column) for _, tile in tiles])


def _numbered_names(tiles: Sequence[Tile]) -> tuple[list[str], Any]:
    """Names that occur, each once, and the index of each bar's own; -1 for none."""
    numbers: dict[str | None, int] = {None: -1}  # no pandas: importing it takes longer than a view
    each = np.concatenate([tile.name for tile in tiles]).tolist()
    found = [numbers.setdefault(name, len(numbers) - 1) for name in each]
    return [name for name in numbers if name is not None], np.array(found, np.int32)
