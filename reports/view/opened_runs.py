"""Runs in the viewer: their tables of ops, opened when first requested."""

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
    name : name of the run on the page
    folder : Path
        The run folder.
    variants : variants with kept ops, the base first
    """

    name: str
    folder: Path
    variants: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path) -> ViewedRun:
        """Find the tables of ops in a run folder.

        Raises
        ------
        ScenarioError
            The run kept no ops.
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
        """File with the ops of a variant."""
        return self.folder / f"ops.{variant}.parquet"


@dataclass(frozen=True)
class OpenedVariant:
    """An opened variant of a run; on the page its lanes are numbered from ``first_lane``."""

    name: str
    table: ViewedTable
    first_lane: int


class OpenedRuns:
    """Tables of several runs, each opened once, from which requests of the browser are answered.

    Parameters
    ----------
    runs : one or more runs
    tick : s
        Length of a tick, the same for all runs.
    say : function that reports slow work to the user
    """

    def __init__(
        self, runs: Sequence[ViewedRun], say: Say = lambda _: None, tick: Seconds = PICOSECOND
    ):
        self.runs, self.tick, self._say = tuple(runs), tick, say
        self._opened: dict[str, ViewedTable] = {}
        self._lock = Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all variants of all runs, such as ``0.base`` for the base of the first run."""
        return tuple(f"{i}.{v}" for i, run in enumerate(self.runs) for v in run.variants)

    @property
    def default_variants(self) -> tuple[str, ...]:
        """Variants shown by default: the first of each run."""
        return tuple(f"{i}.{run.variants[0]}" for i, run in enumerate(self.runs))

    def title(self, name: str) -> str:
        """Title of a variant on the page, with the run's name if there are several runs."""
        number, _, variant = name.partition(".")
        run = self.runs[int(number)]
        return f"{run.name} {variant}" if len(self.runs) > 1 else variant

    def shown(self, names: Sequence[str]) -> list[OpenedVariant]:
        """Open variants by name.

        Raises
        ------
        ValueError
            No name is given, or a variant does not exist.
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
        """Convert ticks to seconds."""
        return seconds(ticks, self.tick)

    def ticks(self, time: float) -> int:
        """Convert seconds to ticks."""
        return round(time / self.tick)


def timeline_facts(runs: OpenedRuns, shown: Sequence[OpenedVariant]) -> dict[str, Any]:
    """Data that the page's timeline starts with: span in s, rows, and a text on what is drawn."""
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
    """Timeline rows of a variant: machines (if several), ranks, streams; folded if many."""
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
    """Machine of each (job, rank): that of its first stream with a known machine."""
    found: dict[tuple[str, int], str] = {}
    for lane in lanes:
        found[_rank_of(lane)] = found.get(_rank_of(lane)) or lane.machine
    return found


class DrawnBars:
    """Bars of several variants as columns of one reply, with times in s.

    Parameters
    ----------
    runs : the opened runs
    shown : variants to draw
    first, last : start and end of the time window, in s
    width : width of the window in pixels
    lanes : lanes to draw, by their numbers on the page
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
        """Binary reply for the browser: length of a JSON head (4 bytes), head, columns."""
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
    """Distinct op names, and the index of each bar's name; -1 for none."""
    numbers: dict[str | None, int] = {None: -1}  # no pandas: importing it takes longer than a view
    each = np.concatenate([tile.name for tile in tiles]).tolist()
    found = [numbers.setdefault(name, len(numbers) - 1) for name in each]
    return [name for name in numbers if name is not None], np.array(found, np.int32)
