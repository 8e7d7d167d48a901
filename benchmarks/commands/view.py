"""Cost of ``foretrace view`` with ten million ops: opening, all kinds of views, search, single ops.

The table is sorted by rank, as for simulated SPMD graphs, or by time, as for ops submitted during
the run. It comes with a table of participants: each all-reduce has a wait, and a second participant
on the next rank. The benchmark prints wall seconds, as a user experiences them: for each kind of
view the slowest window of the run. It also prints CPU seconds, which depend less on other load.

Usage: python -m foretrace.benchmarks.commands.view [ops] [rank|time]
"""

import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import duckdb
import numpy as np
from foretrace.reports.export.tables import ROW_GROUP
from foretrace.reports.view.opened_runs import DrawnBars, OpenedRuns, ViewedRun
from foretrace.reports.view.pyramid import pyramid_folder
from foretrace.sim.facts.kind import kind_names

from .._measure import peak_memory, report

RANKS, STREAMS, LAYERS = 64, (0, 7, 20), 80
PARTS = ("attn.qkv", "attn.out", "mlp.up", "mlp.down", "norm", "all-reduce", "fill", "gap")
KINDS = (0, 0, 0, 0, 0, 5, 2, 7)  # of those parts
FORM = f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"
WIDTH, SEEN = 1600, 40  # pixels, lanes
ZOOMS = (1, 2, 5, 10, 20, 50, 100, 1000, 10_000, 1_000_000)
SEARCHES = ("layers.7.attn.out", "layers", "MLP.UP", "all-reduce", "no such op")


def write_table(path: Path, ops: int, by: str) -> None:
    """Write a table of ops on streams of ranks, with jitter, overlaps and gaps."""
    rng = np.random.default_rng(7)
    each = ops // RANKS
    number = np.arange(each)
    part = number % len(PARTS)
    stream = np.where(part == 5, 1, np.where(part >= 6, 2, 0))
    took = np.exp(np.log([8e6, 5e6, 2e7, 2e7, 1e6, 3e7, 2e6, 5e5])[part])
    columns: dict[str, list[np.ndarray]] = {name: [] for name in ("start", "end", "rank")}
    for rank in range(RANKS):
        lasts = np.rint(took * rng.lognormal(0, 0.2, each)).astype(np.int64)
        start = np.cumsum(np.where(stream == 0, lasts, lasts // 8)) - lasts // 8
        columns["start"].append(start)
        columns["end"].append(start + lasts)
        columns["rank"].append(np.full(each, rank, np.int32))
    order = np.argsort(np.tile(number, RANKS), kind="stable") if by == "time" else slice(None)
    table = {name: np.concatenate(parts)[order] for name, parts in columns.items()}
    table["number"] = np.tile(number, RANKS)[order]
    told = {"parts": list(PARTS), "kinds": kind_names()[list(KINDS)].tolist(), "streams": STREAMS}
    with duckdb.connect() as db:
        db.execute("SET enable_progress_bar = false")
        db.register("made", table)
        db.execute(
            "COPY (SELECT row_number() OVER () - 1 AS op, 0::INTEGER AS graph, number AS row, "
            "$kinds[number % 8 + 1] AS kind, rank, "
            "$streams[CASE WHEN number % 8 = 5 THEN 2 WHEN number % 8 >= 6 THEN 3 ELSE 1 END] "
            "AS stream, (number // 640)::INTEGER AS period, "
            "'node' || rank // 8 || '.gpu' || rank % 8 AS component, "
            f"'layers.' || number // 8 % {LAYERS} || '.' || $parts[number % 8 + 1] AS name, "
            "start AS ready, start, \"end\", 'ended' AS state, 0::BIGINT AS attempts FROM made) "
            f"TO '{path}' {FORM}",
            told,
        )
        columns = '"op", kind, stream, name, start - ("end" - start) // 10 AS since, start, "end"'
        met = f"FROM '{path}' WHERE kind = 'collective'"
        db.execute(
            f"COPY (SELECT * FROM (SELECT false AS further, rank, {columns} {met} UNION ALL "
            f"SELECT true, xor(rank, 1), {columns} {met}) ORDER BY start, op) "
            f"TO '{path.parent / 'places.base.parquet'}' {FORM}"
        )


class SlowestQueries:
    """Slowest query of each kind, in wall and CPU seconds."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    def ask(self, kind: str, question: Callable[[], object]) -> None:
        began, spent = time.perf_counter(), time.process_time()
        question()
        self.wall[kind] = max(self.wall.get(kind, 0), time.perf_counter() - began)
        self.cpu[kind] = max(self.cpu.get(kind, 0), time.process_time() - spent)


def main(ops: int = 10_000_000, by: str = "rank") -> None:
    with tempfile.TemporaryDirectory() as home:
        run = Path(home) / "made" / "run"
        run.mkdir(parents=True)
        table = run / "ops.base.parquet"
        maker = get_context("spawn").Process(target=write_table, args=(table, ops, by))
        maker.start()  # what making it takes is no memory of a view
        maker.join()
        before, worst = peak_memory(), SlowestQueries()
        worst.ask("first opening", lambda: pyramid_folder(table))
        kept = sum(file.stat().st_size for file in (run / ".view").rglob("*"))
        opened = OpenedRuns([ViewedRun.of(run)])
        worst.ask("opening again", lambda: opened.shown(opened.default_variants))
        shown = opened.shown(opened.default_variants)
        (viewed,) = (one.table for one in shown)
        rng, whole = np.random.default_rng(1), (viewed.last - viewed.first) * opened.tick
        bars = 0
        for zoom in ZOOMS:
            for at in rng.uniform(0, 1 - 1 / zoom, 3):
                lane = int(rng.integers(0, len(viewed.lanes) - SEEN))
                for kind, lanes in (
                    ("all lanes", range(len(viewed.lanes))),
                    (f"{SEEN} lanes", range(lane, lane + SEEN)),
                ):

                    def draw(lanes: range = lanes, at: float = at, zoom: int = zoom) -> None:
                        nonlocal bars
                        window = at * whole, (at + 1 / zoom) * whole
                        drawn = DrawnBars(opened, shown, *window, WIDTH, lanes)
                        bars = max(bars, len(drawn.columns["lane"]), len(drawn.body()) and 0)

                    worst.ask(f"view of {kind}", draw)
        for text in SEARCHES:
            worst.ask("search", lambda text=text: viewed.find(text))
        for at in rng.uniform(0, 1, 5):
            tick = viewed.first + int(at * (viewed.last - viewed.first))
            told = lambda tick=tick: [viewed.members(op) for op in viewed.ops_at(50, tick)[:1]]  # noqa: E731
            worst.ask("one op", told)
        opened.close()
        views = [kind for kind in worst.wall if "opening" not in kind]
        report(
            "view",
            {
                "s of the first opening": (worst.wall["first opening"], "<=", 20),
                "bytes of the pyramid by the table's": (kept / table.stat().st_size, "<=", 0.1),
                **{f"s of {kind}, the worst": (worst.wall[kind], "<=", 0.3) for kind in views},
                "bytes of memory an op": ((peak_memory() - before) / ops, "<=", 300),
            },
            ops=ops,
            by=by,
            table_bytes_an_op=table.stat().st_size / ops,
            bars=bars,
            cpu_seconds=worst.cpu,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:3])
