"""A pyramid shows the same as its table, at every resolution and in every window."""

import json
from collections import Counter, defaultdict

import duckdb
import numpy as np
import pytest
from foretrace.reports.figures.timeline_source import bar_kind_by_op_kind
from foretrace.reports.view import pyramid
from foretrace.reports.view.op_table import WAITING
from foretrace.reports.view.pyramid import FACTS, pyramid_folder, write_pyramid
from foretrace.reports.view.tiles import MOST_PLACES, ViewedTable
from foretrace.sim.errors import ScenarioError
from foretrace.sim.facts.kind import kind_names
from hypothesis import given, settings
from hypothesis import strategies as st
from op_tables import chain, write_meeting_run, write_table

ALL = 10**9
NAMES = (None, "gemm", "Gemm.backward", "all-reduce of 'it'")
KIND_OF = dict(zip(kind_names().tolist(), bar_kind_by_op_kind().tolist(), strict=True))


FEWER = settings(max_examples=settings().max_examples // 4)  # each writes a table


@st.composite
def op_rows(draw):
    """Ops on a few lanes, short and long, sequential or concurrent; some never ran."""
    rows = []
    for _ in range(draw(st.integers(1, 60))):
        start = draw(st.integers(0, 4000) | st.just(-1))
        took = draw(st.integers(0, 20) | st.integers(0, 3000))
        end = draw(st.sampled_from([start + took] * 9 + [-1])) if start >= 0 else -1
        kind = draw(st.sampled_from([*KIND_OF]))
        rows.append((draw(st.integers(0, 2)), draw(st.sampled_from([0, 7])), kind,
                     draw(st.sampled_from(NAMES)), start, end))  # fmt: skip
    return rows


def ran(rows):
    return [row for row in rows if row[4] >= 0 and row[5] >= row[4]]


def lanes_of(rows):
    return sorted({(row[0], row[1]) for row in ran(rows)})


def bars_directly(rows, level):
    """Bars of a table computed in Python: lane, start, end, kind, count, busy, name."""
    lane_of = {pair: i for i, pair in enumerate(lanes_of(rows))}
    part = 1 << max(level - 8, 0)
    cells, drawn = defaultdict(list), []
    for rank, stream, kind, name, start, end in ran(rows):
        number, lane = KIND_OF[kind], lane_of[rank, stream]
        if end - start >= 1 << level:
            drawn.append((lane, start, end, number, 1, end - start, name or kind))
        else:
            cells[lane, start >> level].append((start, end, number))
    for (lane, _), ops in cells.items():
        time = Counter()
        for start, end, number in ops:
            time[number] += end - start
        kind = min(time, key=lambda k: (-time[k], k))
        start = min(op[0] for op in ops) // part * part
        end = max(op[1] for op in ops) // part * part
        busy = sum(time.values()) // part * part
        drawn.append((lane, start, end, kind, len(ops), busy, None))
    return drawn


def told(tile):
    columns = (tile.lane, tile.start, tile.end, tile.kind, tile.count, tile.busy, tile.name)
    return list(zip(*(c.tolist() for c in columns), strict=True))


def made(tmp_path, rows, base=None):
    """A table and its pyramid from a given level on, in its own folder."""
    home = tmp_path / str(len(list(tmp_path.iterdir())))
    home.mkdir()
    table = write_table(home / "ops.base.parquet", rows)
    folder = home / "pyramid"
    folder.mkdir()
    write_pyramid(table, folder, {"bytes": table.stat().st_size}, base)
    return ViewedTable(table, folder)


def sortable(bar):
    return (*bar[:6], bar[6] or "")


@FEWER
@given(op_rows(), st.integers(0, 6), st.data())
def test_bars_of_any_tile_are_those_of_the_table(tmp_path_factory, rows, base, data):
    viewed = made(tmp_path_factory.mktemp("t"), rows, base)
    level = data.draw(st.integers(0, max(viewed.levels.stop + 2, 3)))
    first = data.draw(st.integers(-10, 7000))
    last = data.draw(st.integers(first, 7100))
    lanes = np.array(data.draw(st.lists(st.integers(0, 5), unique=True)), np.int64)
    directly = [
        bar
        for bar in bars_directly(rows, level)
        if bar[0] in lanes and bar[1] <= last and bar[2] >= first
    ]
    if level >= viewed.levels.stop and viewed.levels:
        level = viewed.levels.stop - 1  # there is no coarser one; what is not kept is read
        directly = [
            bar
            for bar in bars_directly(rows, level)
            if bar[0] in lanes and bar[1] <= last and bar[2] >= first
        ]
    tile = viewed.tile_at(level, first, last, lanes)
    assert sorted(told(tile), key=sortable) == sorted(directly, key=sortable)
    assert [bar[:2] for bar in told(tile)] == sorted(bar[:2] for bar in told(tile))


@FEWER
@given(op_rows(), st.integers(0, 4))
def test_every_level_counts_every_op_once(tmp_path_factory, rows, base):
    viewed = made(tmp_path_factory.mktemp("t"), rows, base)
    every = np.arange(len(viewed.lanes))
    for level in (0, base, *viewed.levels):
        tile = viewed.tile_at(level, 0, ALL, every)
        assert tile.count.sum() == viewed.ops == len(ran(rows))


@FEWER
@given(op_rows(), st.sampled_from(["gemm", "GEMM", "'it'", "compute", "", "no such op"]))
def test_a_search_finds_what_the_table_has(tmp_path_factory, rows, text):
    viewed = made(tmp_path_factory.mktemp("t"), rows)
    lane_of = {pair: i for i, pair in enumerate(lanes_of(rows))}
    fitting = [
        (start, lane_of[rank, stream], end, name or kind)
        for rank, stream, kind, name, start, end in ran(rows)
        if text.lower() in (name or kind).lower()
    ]
    found = viewed.find(text)
    assert (found.ops, found.ticks) == (len(fitting), sum(end - s for s, _, end, _ in fitting))
    assert [tuple(at) for at in found.places] == [(b, a, c, d) for a, b, c, d in sorted(fitting)]


def test_a_search_ends_with_the_first_thousand_places(tmp_path):
    viewed = made(tmp_path, chain(9000))
    found = viewed.find("m")
    assert found.ops == 6000
    assert [at[1] for at in found.places] == [10 * i for i in range(9000) if i % 3 != 2][
        :MOST_PLACES
    ]


def test_waits_and_further_ranks_are_counted_at_every_level_and_found_with_their_op(tmp_path):
    table = write_meeting_run(tmp_path / "run") / "ops.base.parquet"
    folder = tmp_path / "pyramid"
    folder.mkdir()
    write_pyramid(table, folder, {"bytes": table.stat().st_size}, base=6)
    viewed = ViewedTable(table, folder)
    assert (viewed.ops, viewed.drawn) == (5, 11)
    for level in (0, 6, *viewed.levels):
        tile = viewed.tile_at(level, 0, ALL, np.arange(len(viewed.lanes)))
        assert tile.count.sum() == 11
        assert tile.busy[tile.kind == WAITING].sum() == 4000
    assert viewed.find("all-reduce").ops == 2


def test_names_that_are_too_many_for_an_index_are_found_too(tmp_path, monkeypatch):
    monkeypatch.setattr(pyramid, "MANY_NAMES", 5)
    viewed = made(tmp_path, chain(600, [f"op {i}" for i in range(600)]))
    assert not viewed.named
    found = viewed.find("OP 7")
    assert found.ops == len(found.places) == 11
    assert found.ticks == 77


def test_a_view_is_drawn_below_a_pixel(tmp_path):
    viewed = made(tmp_path, chain(4000), base=4)
    tile = viewed.tile(0, 39_997, 1000)
    assert 2**tile.level <= 39_997 / 1000 < 2 ** (tile.level + 1)
    assert len(tile.lane) <= 2 * 1000 + 1
    near = viewed.tile(100, 140, 1000)
    assert near.level == 0
    assert near.name.tolist() == ["norm", "all-reduce", "gemm", "norm", "all-reduce"][:5]


def test_where_too_much_would_be_read_the_finest_level_kept_is_shown(tmp_path, monkeypatch):
    viewed = made(tmp_path, chain(4000), base=6)
    assert viewed.tile(0, 400, 1000).level == 0
    monkeypatch.setattr("foretrace.reports.view.tiles.MOST_ROWS", 100)
    tile = viewed.tile(0, 400, 1000)
    assert tile.level == 6
    assert tile.count.max() > 1


def test_many_lanes_are_drawn_in_fewer_bars(tmp_path, monkeypatch):
    monkeypatch.setattr("foretrace.reports.view.tiles.MOST_BARS", 50)
    tile = made(tmp_path, chain(4000), base=4).tile(0, 39_997, 1000)
    assert len(tile.lane) <= 50
    assert tile.count.sum() == 4000


def test_an_op_is_returned_with_all_its_columns(tmp_path):
    viewed = made(tmp_path, [(3, 7, "compute", "gemm", 10, 20), (3, 7, "copy", None, 15, 18)])
    told = viewed.ops_at(0, 16)
    assert [(op["op"], op["kind"], op["name"]) for op in told] == [
        (1, "copy", None),
        (0, "compute", "gemm"),
    ]
    assert told[1]["component"] == "node1.gpu0"
    assert viewed.ops_at(0, 21) == []


def test_lanes_have_their_machines(tmp_path):
    rows = [
        (2, 7, "compute", "a", 0, 1),
        (0, 0, "collective", "b", 0, 1),
        (0, 7, "host", "c", -1, -1),
    ]
    viewed = made(tmp_path, rows)
    assert viewed.lanes == [(0, 0, "", ""), (2, 7, "node1", "")]
    assert (viewed.ops, viewed.rows) == (2, 3)


def test_ranks_of_several_jobs_have_lanes_of_their_own(tmp_path):
    table = tmp_path / "ops.base.parquet"
    with duckdb.connect() as db:
        db.execute(
            "COPY (SELECT i AS op, 'compute' AS kind, 0 AS rank, 7 AS stream, j AS job, "
            "NULL::VARCHAR AS component, 'gemm' AS name, i AS ready, i AS start, "
            "i + 5 AS \"end\", 'ended' AS state "
            f"FROM (VALUES (0, 'b'), (1, 'it''s'), (2, 'b')) AS t(i, j)) TO '{table}'"
        )
    viewed = ViewedTable(table, pyramid_folder(table))
    assert viewed.lanes == [(0, 7, "", "b"), (0, 7, "", "it's")]
    tile = viewed.tile(0, 10, 10)
    assert (tile.lane.tolist(), tile.start.tolist()) == ([0, 0, 1], [0, 2, 1])
    assert [op["op"] for op in viewed.ops_at(1, 3)] == [1]
    assert [at[0] for at in viewed.find("gemm").places] == [0, 1, 0]


def test_a_pyramid_takes_a_tenth_of_its_table(tmp_path):
    rng = np.random.default_rng(4)
    took = np.rint(rng.lognormal(14, 1.5, 400_000)).astype(np.int64)
    end = np.cumsum(took.reshape(8, -1), axis=1).ravel()
    table = tmp_path / "ops.base.parquet"
    with duckdb.connect() as db:
        db.register("t", {"rank": np.repeat(np.arange(8), 50_000), "start": end - took, "e": end})
        db.execute(
            "COPY (SELECT row_number() OVER () - 1 AS op, 'compute' AS kind, rank, 0 AS stream, "
            "'node0.gpu' || rank AS component, 'gemm' AS name, start, e AS \"end\" FROM t) "
            f"TO '{table}' (FORMAT parquet, COMPRESSION zstd)"
        )
    folder = pyramid_folder(table)
    size = sum(file.stat().st_size for file in folder.iterdir())
    assert size <= 0.1 * table.stat().st_size
    levels = json.loads((folder / FACTS).read_text())["levels"]
    assert levels[1] - levels[0] >= 5
    viewed = ViewedTable(table, folder)
    assert viewed.tile(viewed.first, viewed.last, 1000).count.sum() == 400_000


def test_a_pyramid_is_kept_and_one_of_another_table_is_not(tmp_path):
    table = write_table(tmp_path / "ops.base.parquet", chain(50))
    said = []
    folder = pyramid_folder(table, said.append)
    assert folder == tmp_path / ".view" / "ops.base"
    assert pyramid_folder(table, said.append) == folder
    assert len(said) == 1
    write_table(table, chain(60))
    assert ViewedTable(table, pyramid_folder(table, said.append)).ops == 60
    assert len(said) == 2
    (folder / FACTS).write_text("{")
    pyramid_folder(table, said.append)
    assert len(said) == 3


def test_an_interrupted_pyramid_is_not_used(tmp_path, monkeypatch):
    table = write_table(tmp_path / "ops.base.parquet", chain(50))
    with monkeypatch.context() as broken:
        broken.setattr(pyramid, "_write_names", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pyramid_folder(table)
    assert list((tmp_path / ".view").iterdir()) == []
    assert ViewedTable(table, pyramid_folder(table)).ops == 50


def test_where_nothing_can_be_written_it_is_cached(tmp_path, monkeypatch):
    table = write_table(tmp_path / "ops.base.parquet", chain(50))
    (tmp_path / ".view").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = pyramid_folder(table)
    assert folder.is_relative_to(tmp_path / "cache")
    assert pyramid_folder(table, pytest.fail) == folder


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all", b"\xff\xff\xff\x7fPAR1"])
def test_a_file_that_is_not_a_table_is_refused(tmp_path, content):
    (tmp_path / "ops.base.parquet").write_bytes(content)
    with pytest.raises(ScenarioError, match=r"ops\.base\.parquet: is not a complete table of ops"):
        pyramid_folder(tmp_path / "ops.base.parquet")
