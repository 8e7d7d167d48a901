"""A library fitted to logs of nccl-tests, rccl-tests and of a benchmark of torch."""

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from foretrace.models.calibration.held_out_errors import HeldOutErrors
from foretrace.models.network.collective.library_times import LibraryTimes
from foretrace.models.value_doubts import range_from_median_error
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.studies.building.system import build_system
from foretrace.scenarios.studies.fitting.catalog_entry import (
    catalog_entry_text,
    settings_before_fit,
)
from foretrace.scenarios.studies.fitting.collective_logs import CollectiveRow, collective_logs
from foretrace.scenarios.studies.fitting.network import MeasuredFabric, fit_network, network_lines
from foretrace.sim.errors import ScenarioError

SCENARIO = """
foretrace: 1
name: two
cluster:
  nodes: 4
  node:
    gpu: {model: a100-sxm4-80g, count: 2}
    nic: {model: connectx-6, count: 2}
    links: [{from: gpu, to: gpu, via: nvlink3}]
  fabric: {switch: tomahawk-3}
workload: {type: transfers, ops: [{op: "collective:all-reduce", bytes: 1 MiB}]}
"""
TRUTH = {
    "simple.launch": 2e-5,
    "simple.efficiency": 0.75,
    "simple.network.step": 3e-5,
    "simple.network.efficiency": 0.85,
}
STILL = {"algorithms": "ring"}
HEADER = """# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20
# Collective test starting: {name}_perf
# Using devices
{ranks}
#       size         count      type   redop    root     time   algbw   busbw #wrong     time
"""
RANK = "#  Rank {0:2d} Group  0 Pid {1} on {2} device  {3} [0000:c1:00] {4}"


def rates(size, seconds):
    return f" {size / seconds / 1e9:7.2f} {1.5 * size / seconds / 1e9:7.2f}      0"


def log(name, rows, ranks=4, nodes=2, gpu="NVIDIA H100 80GB HBM3"):
    listed = [RANK.format(r, 900 + r, f"host{r * nodes // ranks}", r, gpu) for r in range(ranks)]
    lines = [f"{int(b):12d} {int(b) // 4:12d}     float     sum      -1 {s * 1e6:9.2f}{rates(b, s)}"
             f" {s * 2e6:9.2f}{rates(b, 2 * s)}" for b, s in rows]  # fmt: skip
    text = HEADER.format(name=name, ranks="\n".join(listed)) + "\n".join(lines)
    return text + "\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 12.3\n"


def machine(folder):
    file = folder / "two.yaml"
    file.write_text(SCENARIO)
    return file


def times(folder, ranks, nodes, sizes):
    of = LibraryTimes(build_system(load(machine(folder))), STILL)
    chosen = [n * 2 + k for n in range(nodes) for k in range(ranks // nodes)]
    return of.seconds(TRUTH, "all-reduce", chosen, np.asarray(sizes, float))


@pytest.mark.parametrize("gpu", ["NVIDIA H100 80GB HBM3", "AMD Instinct MI250X"])
def test_rows_of_nccl_tests_and_rccl_tests_are_read_out_of_place(tmp_path, gpu):
    file = tmp_path / "a.log"
    file.write_text(log("all_gather", [(0, 1e-6), (1024, 2.5e-5), (2048, 3e-5)], gpu=gpu))
    assert collective_logs([str(file)]).rows == (
        CollectiveRow("all-gather", 4, 2, 1024.0, pytest.approx(2.5e-5)),
        CollectiveRow("all-gather", 4, 2, 2048.0, pytest.approx(3e-5)),
    )


def test_a_log_of_2021_is_named_by_its_file():
    folder = (
        Path(os.environ.get("FORETRACE_DATA", "no such folder"))
        / "collectives"
        / "a100-40g-8gpu-superbench"
    )
    if not folder.is_dir():
        pytest.skip("set FORETRACE_DATA to the folder of public measurements")
    rows = collective_logs([str(folder / "nccl_reducescatter.log")]).rows
    assert {(r.collective, r.ranks, r.nodes) for r in rows} == {("reduce-scatter", 8, 1)}
    assert len({r.size for r in rows}) > 25


def test_a_benchmark_of_torch_tells_bus_bandwidths(tmp_path):
    """T = S x 2 (n - 1) / n / busbw: 1.75 x 32 KiB / 1.44 GB/s of eight ranks."""
    file = tmp_path / "bench.txt"
    file.write_text(
        "The average bandwidth of all_reduce over 8 ranks (5 warmups / 20 trials):\n\n"
        "| payload |    busbw   |    algbw   |\n| ------: | ---------: | ---------: |\n"
        "|  32KiB |   1.44GBps |   0.82GBps |\n"
    )
    (row,) = collective_logs([str(file)], nodes=1).rows
    assert (row.collective, row.ranks, row.size) == ("all-reduce", 8, 32768)
    assert row.seconds == pytest.approx(1.75 * 32768 / 1.44e9)


@pytest.mark.parametrize(
    ("text", "asked", "message"),
    [
        (
            "nothing",
            {"collective": "all-reduce", "ranks": 2},
            "has no row of nccl-tests, rccl-tests",
        ),
        ("nothing", {}, "does not name its collective; give --collective"),
        (
            "nothing",
            {"collective": "all-red"},
            "--collective 'all-red': is unknown; write one of all-reduce",
        ),
        ("all_reduce_perf", {}, "does not say how many ranks took part; give --ranks"),
        (
            "all_reduce_perf",
            {"ranks": 5, "nodes": 2},
            "5 ranks cannot be spread evenly over 2 machines",
        ),
    ],
)
def test_a_log_that_does_not_say_enough_is_refused_with_the_cure(tmp_path, text, asked, message):
    file = tmp_path / "x.log"
    file.write_text(text)
    with pytest.raises(ScenarioError, match=message):
        collective_logs([str(file)], **asked)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Logs of 1, 2 and 4 machines with 2 % of noise; the largest number is held out whole."""
    folder = tmp_path_factory.mktemp("logs")
    random, rows = np.random.default_rng(1), []
    sizes = 2.0 ** np.arange(10, 30)
    for nodes in (1, 2, 4):
        exact = times(folder, 2 * nodes, nodes, sizes)
        noisy = exact * np.exp(random.normal(0, 0.02, len(sizes)))
        rows += [CollectiveRow("all-reduce", 2 * nodes, nodes, s, t)
                 for s, t in zip(sizes.tolist(), noisy.tolist(), strict=True)]  # fmt: skip
    data = MeasuredFabric(tuple(rows), machine(folder))
    fit, still = fit_network(data, STILL, [*TRUTH])
    return data, fit, still


def test_a_fit_finds_the_constants_that_made_the_logs(fitted):
    _, fit, still = fitted
    for name in ("simple.network.step", "simple.network.efficiency", "simple.launch"):
        assert fit.found.values[name] == pytest.approx(TRUTH[name], rel=0.1), name
    assert still == STILL


def test_held_out_sizes_and_machines_are_inside_the_intervals(fitted):
    data, fit, _ = fitted
    assert fit.found.held.median < 0.04
    assert 1.01 < fit.factor < 1.15
    inside, there = fit.inside
    assert min(inside, there) >= 0.8
    assert np.median(np.abs(fit.more_nodes.errors)) < 0.04
    lines = network_lines(fit, data.rows)
    assert "all logs of 4 machines held out" in lines[1]


def test_an_entry_says_an_error_whose_interval_holds_as_often_as_the_fit(fitted):
    """Its error was the median of held-out sizes, of which runs made a quarter of the interval."""
    data, fit, _ = fitted
    before = settings_before_fit("library", "", ["algorithms=ring"], [])
    far = replace(fit, factor=1.5)
    text = catalog_entry_text("library", "own", before, fit.found, data, "sizes", "2026-11-23",
                              factor=far.entry_factor)  # fmt: skip
    share = float(re.search("step: .*error: ([0-9.]+) %", text)[1]) / 100
    assert range_from_median_error(share).slow == pytest.approx(np.log(1.5), rel=0.01)
    assert "90 % of times within a factor of 1.5" in text
    rows = HeldOutErrors(far.more_nodes.errors * 0 + 1.0, far.more_nodes.groups)
    assert replace(far, more_nodes=rows).entry_factor == pytest.approx(2.0)


@pytest.mark.nightly
def test_a_constant_that_the_logs_cannot_tell_is_kept(tmp_path):
    """Of one machine: nothing crosses the network."""
    sizes = 2.0 ** np.arange(8, 30, 0.5)
    rows = tuple(
        CollectiveRow("all-reduce", 2, 1, s, t)
        for s, t in zip(sizes.tolist(), times(tmp_path, 2, 1, sizes).tolist(), strict=True)
    )
    fit, _ = fit_network(
        MeasuredFabric(rows, machine(tmp_path)),
        STILL,
        ["simple.launch", "simple.efficiency", "simple.network.step"],
    )
    assert fit.found.kept == ("simple.network.step",)
    assert fit.more_nodes is None


@pytest.mark.parametrize(
    ("rows", "names", "message"),
    [
        (
            [("all-reduce", 16, 8)] * 9,
            ["simple.launch"],
            "but the cluster has fewer; raise 'nodes'",
        ),
        ([("all-reduce", 4, 2)], (), "2 parameters need 10 sizes to fit"),
        (
            [("all-reduce", 4, 2)],
            ["launch_ll"],
            "'launch_ll' is now 'll.launch'; write one of simple",
        ),
        ([("all-reduce", 4, 2)], ["launchh"], "no parameter launchh; write one of simple.launch"),
    ],
)
def test_logs_that_cannot_be_fitted_are_refused_with_the_cure(tmp_path, rows, names, message):
    told = tuple(CollectiveRow(*row, 1e6, 1e-3) for row in rows)
    with pytest.raises(ScenarioError, match=message):
        fit_network(MeasuredFabric(told, machine(tmp_path)), STILL, names)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("network",), "needs logs; write foretrace fit network"),
        (("network", "a.log"), "needs a machine; give a scenario of its cluster with --machine"),
        (("nic", "a.log"), "fit nic: needs recordings; give them with --recording"),
    ],
)
def test_logs_and_recordings_are_not_mixed_up(cli, args, message):
    code, _, error = cli("fit", *args)
    assert code
    assert message in " ".join(error.split())


def test_a_usual_sweep_of_26_sizes_is_fitted_by_default(tmp_path):
    """Launch and efficiency first; what has too few sizes keeps its value and is reported."""
    sizes = 2.0 ** np.arange(8, 34)
    rows = tuple(
        CollectiveRow("all-reduce", 2, 1, s, t)
        for s, t in zip(sizes.tolist(), times(tmp_path, 2, 1, sizes).tolist(), strict=True)
    )
    fit, still = fit_network(MeasuredFabric(rows, machine(tmp_path)), STILL)
    assert {"simple.launch", "simple.efficiency"} <= set(fit.found.values)
    assert fit.left
    assert not set(fit.left) & set(fit.found.values)
    assert fit.found.held.median < 0.1
    assert still == STILL
    told = network_lines(fit, rows)[1]
    assert told.startswith("not fitted, because each parameter needs 5 sizes: ")
    assert all(name in told for name in fit.left)
