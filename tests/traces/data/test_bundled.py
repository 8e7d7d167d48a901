"""Are the bundled recordings what their README says?"""

import csv
import json
from collections import defaultdict
from pathlib import Path

import foretrace
import numpy as np
import pytest
from foretrace.models.calibration.parameter_search import held_out_mask
from foretrace.traces.formats import native
from foretrace.traces.step_times import read, stretch_factor

DATA = Path(foretrace.__file__).parent / "traces" / "data"
RANKS = {"resnet50": 1, "gpt": 1, "ddp-resnet50": 2, "ddp-gpt": 2}
PARAMETERS = {"ddp-resnet50": 25_557_032, "ddp-gpt": 4_224_512}
MEBIBYTE = 2**20


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="") as text:
        return list(csv.DictReader(text))


@pytest.fixture(scope="module")
def traces():
    return {name: native.read(DATA / name) for name in RANKS}


def named(trace, prefix: str) -> np.ndarray:
    """Rows of the events whose names begin with `prefix`."""
    return np.flatnonzero([str(text).startswith(prefix) for text in trace.text("name")])


@pytest.mark.parametrize("name", RANKS)
def test_every_rank_has_ten_marked_steps(traces, name):
    trace = traces[name]
    marks = named(trace, "ProfilerStep#")
    ranks = trace.events["rank"][marks]
    assert np.bincount(ranks).tolist() == [10] * RANKS[name]


@pytest.mark.parametrize("name", RANKS)
def test_the_trace_is_that_of_the_start_which_the_table_names(traces, name):
    """Marks and table read the clock apart; they differ by the profiler's own step."""
    (start,) = [
        row["start"]
        for row in rows("starts.csv")
        if row["configuration"] == name and row["bundled"] == "True"
    ]
    timed = defaultdict(list)
    for row in rows(f"{name}/steps.csv"):
        if (row["start"], row["phase"]) == (start, "traced"):
            timed[int(row["rank"])].append(int(row["duration_ns"]) * 1e-9)
    trace = traces[name]
    marks = named(trace, "ProfilerStep#")
    for rank, times in timed.items():
        mine = marks[trace.events["rank"][marks] == rank]
        mine = mine[np.argsort(trace.events["ts"][mine])]
        assert trace.seconds(trace.events["dur"][mine]) == pytest.approx(times, rel=0.01)


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_step_reduces_every_gradient_once(traces, name):
    trace = traces[name]
    reduced = named(trace, "gloo:all_reduce")
    shapes = [json.loads(text) for text in trace.text("shapes")[reduced]]
    elements = np.array([np.prod(shape[0]) for shape in shapes])
    for rank in range(2):
        mine = elements[trace.events["rank"][reduced] == rank]
        assert mine.sum() == 10 * PARAMETERS[name]


@pytest.mark.parametrize("name", RANKS)
def test_operators_keep_shapes_and_types(traces, name):
    trace = traces[name]
    products = named(trace, "aten::addmm")
    assert len(products) >= 10
    assert all(json.loads(text)[1] for text in trace.text("shapes")[products])
    assert all("float" in text for text in trace.text("dtypes")[products])


@pytest.mark.parametrize("name", RANKS)
def test_every_start_has_untraced_steps_of_all_ranks(name):
    starts = read([DATA / name])
    assert [len(steps) for steps in starts.steps] == [30] * 19
    ranks = {row["rank"] for row in rows(f"{name}/steps.csv")}
    assert len(ranks) == RANKS[name]


@pytest.mark.parametrize("name", RANKS)
def test_the_bundled_start_is_none_that_the_check_of_intervals_holds_out(name):
    bundled = [row["start"] for row in rows("starts.csv") if row["bundled"] == "True"]
    assert len(bundled) == len(RANKS)
    assert not held_out_mask([f"start{start}" for start in bundled], share=0.5).any()


@pytest.mark.parametrize("name", RANKS)
def test_tracing_hardly_changed_the_bundled_steps(traces, name):
    graph = traces[name].graph()
    assert stretch_factor(graph, read([DATA / name])) == pytest.approx(1, abs=0.05)


def test_recordings_are_small():
    size = sum(file.stat().st_size for file in DATA.rglob("*") if file.is_file())
    assert size <= 5 * MEBIBYTE


def test_every_recording_is_explained():
    told = (DATA / "README.md").read_text()
    for file in DATA.iterdir():
        if file.suffix == ".csv" or (file.is_dir() and not file.name.startswith("__")):
            assert f"`{file.name}" in told, file.name


@pytest.mark.parametrize("name", RANKS)
def test_nothing_names_the_machine_or_its_folders(traces, name):
    trace = traces[name]
    texts = [*trace.strings, (DATA / name / "trace.json").read_text()]
    assert [t for t in texts if "/tmp" in t or "/root" in t or "/home" in t] == []


def test_rates_cover_what_a_fit_needs():
    sizes = {int(row["bytes"]) for row in rows("all_reduce.csv")}
    assert (min(sizes), max(sizes)) == (1024, 64 * MEBIBYTE)
    assert len({row["start"] for row in rows("all_reduce.csv")}) >= 5
    cores = {(row["op"], row["cores"]) for row in rows("compute.csv")}
    assert cores == {(op, n) for op in ("gemm", "copy", "add", "sum") for n in "12"}
