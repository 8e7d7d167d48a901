"""Step times of process starts, from what `trace capture` leaves and from the bundled tables."""

from dataclasses import replace
from pathlib import Path

import foretrace
import numpy as np
import pytest
from foretrace.sim.errors import TraceError
from foretrace.traces.formats import native
from foretrace.traces.step_times import StepTimes, read, stretch_factor, with_untraced_times

DATA = Path(foretrace.__file__).parent / "traces" / "data"
HEAD = "step,phase,start_ns,duration_ns,cpu_ns\n"


def captured(folder, rank, untraced_ms):
    folder.mkdir(exist_ok=True)
    rows = [f"{i},untraced,0,{int(t * 1e6)},0\n" for i, t in enumerate(untraced_ms)]
    rows += ["8,warm-up,0,999000000,0\n", "9,traced,0,999000000,0\n"]
    (folder / f"rank{rank}.steps.csv").write_text(HEAD + "".join(rows))


def test_a_folder_is_a_start_and_a_step_the_mean_of_its_ranks(tmp_path):
    for rank, times in enumerate(([1.0, 3.0], [2.0, 5.0])):
        captured(tmp_path / "a", rank, times)
    captured(tmp_path / "b", 0, [8.0])
    found = read(sorted(tmp_path.iterdir()))
    assert [s.tolist() for s in found.steps] == [pytest.approx([1.5e-3, 4e-3]), [8e-3]]


def test_the_bundled_table_holds_all_starts():
    found = read([DATA / "ddp-gpt"])
    assert len(found.steps) == 19
    assert len(found.without_starts(2, 5).steps) == 17


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "has no steps.csv or rank"),
        (HEAD, "has no untraced steps"),
        ("step,phase\n0,untraced\n", "is not a table of steps"),
        (HEAD + "0,untraced,0,soon,0\n", "soon"),
        (HEAD + "0,untraced\n", r"is not a table .*; use the one that 'trace"),
        (HEAD + "0,untraced,0,0,0\n", "a step of 0 s"),
        (HEAD + "0,untraced,0,\u00e8,0\n", "is not a table of steps"),
    ],
)
def test_a_file_that_is_no_step_table_is_refused(tmp_path, text, message):
    if text is not None:
        (tmp_path / "rank0.steps.csv").write_text(text, encoding="utf-8")
    with pytest.raises(TraceError, match=message):
        read([tmp_path])


def test_every_time_of_a_trace_is_stretched_alike():
    graph, starts = native.read(DATA / "gpt").graph(), read([DATA / "gpt"])
    by, made = stretch_factor(graph, starts), with_untraced_times(graph, starts)
    np.testing.assert_allclose(made.ops.duration, by * graph.ops.duration)
    np.testing.assert_allclose(made.explicit.release, by * graph.explicit.release)
    assert made.facts["process_starts"] == 19
    traced = np.median(np.mean(graph.facts["step_times"], axis=0))
    assert by * traced == pytest.approx(starts.typical)


def test_steps_that_alternate_are_compared_by_whole_turns():
    """Medians of two modes said that tracing had made nothing 1.22 times as slow."""
    traced = np.array([35.0, 69.0, 35.0, 69.0, 35.0])
    block = native.read(DATA / "gpt").graph()
    facts = {"steps": (1, 2, 3, 4, 5), "step_times": [traced], "steps_per_iteration": 2}
    graph = replace(block, facts=facts)
    untraced = StepTimes((np.array([69.0, 35.0, 69.0, 35.0]),))
    assert stretch_factor(graph, untraced) == pytest.approx(1)
