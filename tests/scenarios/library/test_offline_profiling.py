"""Simulation by offline profiling (arXiv:2002.06790): the library's scenario, and plans ranked.

``test_ablations.py`` compares its page, nightly. What is to be rejected of a profile is refused
in ``tests/traces/test_broken*.py``.
"""

import csv
import json
import os
from pathlib import Path

import foretrace
import numpy as np
import pytest
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.studies.variants.variants import build_variant
from foretrace.scenarios.workloads.trace_files import open_trace
from foretrace.sim.errors import TraceError
from foretrace.sim.facts.ops import Kind
from foretrace.sim.units import quantity
from foretrace.traces.step_times import read

ROOT = Path(foretrace.__file__).parent
RECORDED = ROOT / "traces" / "data"
DATA = Path(os.environ.get("FORETRACE_DATA", Path(__file__).parents[4] / "shared" / "data"))
MEASURED = {
    "base": "ddp-gpt-large-2gbit",
    "gpt-narrow": "ddp-gpt-2gbit",
    "gpt": "ddp-gpt",
    "resnet50-small": "ddp-resnet50-small",
    "resnet50": "ddp-resnet50",
}
AT_PEAK = {"at-peak": "all_reduce-2gbit.csv", "gpt-at-peak": "all_reduce.csv"}


@pytest.fixture(scope="module")
def variants():
    scenario = load("foretrace:offline-profiling", set=["run.quick=true"])
    return {one.variant: one for one in scenario.variants()}


def wire(variant):
    """Rate of the wire, B/s, and the settings of the library."""
    cluster = variant.section("cluster")
    (link,) = cluster.node.links
    return link.link.settings["bandwidth"], cluster.fabric.library.settings


@pytest.mark.parametrize("name", MEASURED)
def test_what_was_measured_is_the_median_of_all_starts(variants, name):
    said = variants["base"].section("ablations").headline.measured[name]
    steps = read([RECORDED / MEASURED[name]])
    assert quantity(said, "s") == pytest.approx(np.median(steps.medians), rel=0.003)


@pytest.mark.parametrize("name", AT_PEAK)
def test_the_peak_is_the_best_rate_of_any_message(variants, name):
    with (RECORDED / AT_PEAK[name]).open(newline="") as file:
        rates = [int(row["bytes"]) / int(row["duration_ns"]) * 1e9 for row in csv.DictReader(file)]
    rate, library = wire(variants[name])
    assert rate == pytest.approx(max(rates), rel=0.005)
    assert library["simple"]["step"] == library["cores"]["step"] == 0
    assert "rate" not in library["cores"]


@pytest.mark.parametrize(("name", "of", "near"), [
    ("gpt-narrow", "gpt-narrow", True),
    ("gpt-narrow-summed", "gpt-narrow", False),
    ("gpt", "gpt", True),
    ("gpt-at-peak", "gpt", False),
])  # fmt: skip
def test_a_step_of_two_processes_is_near_only_with_every_piece(variants, name, of, near):
    """A typical run alone, of the quicker models; nightly all of them, with how starts differ."""
    said = variants["base"].section("ablations").headline
    predicted = build_variant(variants[name]).run().period_time
    error = predicted / quantity(said.measured[of], "s") - 1
    assert (abs(error) <= said.within) == near


def test_of_ops_that_overlap_on_a_stream_the_later_lasts_from_the_end_of_the_earlier(tmp_path):
    """Programmatic launches make such recordings: what both are in flight counts once.

    They are accepted where that is said: no clock explains 230 us of 600.
    """
    host = {"ph": "X", "pid": 1, "tid": 1}
    events = [{**host, "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 0, "dur": 900}]
    for number, (start, last) in enumerate([(30, 300), (100, 300)], start=1):
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 10 * number, "dur": 2}
        events.append({**host, **launch, "args": {"correlation": number}})
        kernel = {"cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": start, "dur": last}
        said = {"correlation": number, "stream": 7, "device": 0}
        events.append({**host, **kernel, "args": said})
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    with pytest.raises(TraceError, match="1 of 2 pieces of work on stream 7 begin before"):
        open_trace(str(tmp_path / "t.json")).graph()
    ops = open_trace(str(tmp_path / "t.json")).graph(serialise=True).ops
    took = ops.duration[ops.kind == Kind.COMPUTE]
    assert took == pytest.approx([300e-6, 70e-6])
