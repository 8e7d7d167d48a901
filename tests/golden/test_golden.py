"""What runs answered before the settings were grouped, they answer now: to the last bit."""

import copy
from functools import cache

import pytest
from by_day import only
from comparing import differences, leaves, read_table, unused
from record import KEPT, all_runs, kept_file, read, record

RUNS = all_runs()
BY_DAY = [
    "full/fabric", "old/training-experts", "recording/incast-check", "saved/shown",
    "sweep/several-keys",
]  # fmt: skip
MOST = 40  # lines of a failure that are shown


@pytest.mark.parametrize("name", only(BY_DAY, list(RUNS)))
def test_a_run_gives_the_recorded_answer(name):
    told = differences(name, read(name), record(RUNS[name]), read_table())
    assert not told, f"{len(told)} differ:\n" + "\n".join(told[:MOST])


def test_every_run_was_recorded_and_every_record_is_run():
    """A record whose run was left out of the list would be compared with nothing."""
    kept = {str(f.relative_to(KEPT)).removesuffix(".json.gz") for f in KEPT.rglob("*.json.gz")}
    assert {*RUNS} == kept


def test_every_entry_of_the_migration_table_is_needed():
    """Small records are read first: most entries need no large one."""
    small_first = sorted(RUNS, key=lambda name: kept_file(name).stat().st_size)
    assert not unused(small_first, cache(lambda name: {*leaves(read(name))}), read_table())


def test_differences_in_numbers_texts_and_names_are_reported():
    """In what was kept of a run, each changed by hand; and what each list allows."""
    none = {"renamed": [], "texts": [], "gone": [], "new": []}
    kept = {"a": 0.1, "t.parquet": {"columns": {"c": {"texts": "aa", "alike": "bb"}}}, "word": "x"}
    assert not differences("r", kept, copy.deepcopy(kept), none)

    def changed(path, value, **lists):
        found = copy.deepcopy(kept)
        *rest, last = path.split("/")
        place = found
        for key in rest:
            place = place[key]
        place[last] = value
        return differences("r", kept, found, {**none, **lists})

    every = [{"path": ".*", "why": "all"}]
    assert changed("a", 0.1 + 2**-56, texts=every) == ["r: a: was 0.1, is 0.10000000000000002"]
    assert changed("word", "y") == ['r: word: was "x", is "y"']
    assert not changed("word", "y", texts=every)
    assert changed("word", 7, texts=every) == ['r: word: was "x", is 7']
    texts, alike = (f"t.parquet/columns/c/{part}" for part in ("texts", "alike"))
    assert changed(texts, "cc") == [f'r: {texts}: was "aa", is "cc"']
    assert not changed(texts, "cc", texts=every)
    assert changed(alike, "cc", texts=every) == [f'r: {alike}: was "bb", is "cc"']
    assert changed("b", 1) == ["r: b: was nothing, is 1"]
    assert not changed("b", 1, new=every)
    moved = {"b": kept["a"], **{k: v for k, v in kept.items() if k != "a"}}
    renamed = {**none, "renamed": [{"was": "(a)", "now": "b", "why": "a name"}]}
    assert not differences("r", kept, moved, renamed)
    assert differences("r", kept, {**moved, "b": 0.2}, renamed) == ["r: a -> b: was 0.1, is 0.2"]
    assert differences("r", kept, moved, {**none, "new": every}) == ["r: a: was 0.1, is nothing"]
    assert not differences("r", kept, moved, {**none, "new": every, "gone": every})
