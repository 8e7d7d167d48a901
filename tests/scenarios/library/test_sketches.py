"""Five policies outside the package: small cases with known answers, on both engines."""

import ast
import json
import shutil
import sys
from pathlib import Path

import foretrace
import numpy as np
import pytest
from foretrace import Backend, Component, Simulation, System, Timing
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.config.plugin_loading import unload_plugin_file
from foretrace.scenarios.studies.variants.variants import build_variants, run_with_replicas
from foretrace.sim.testing import check_same_run

HERE = Path(foretrace.__file__).resolve().parent / "docs" / "examples" / "plugins"
ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])
LONGEST = {
    "paged_serving": 110,
    "paged_serving_twin": 80,
    "page_tiering": 110,
    "spraying": 110,
    "stateful_nf": 110,
    "gang_scheduler": 110,
}
SCENARIOS = [name for name in LONGEST if not name.endswith("_twin")]


@pytest.fixture(autouse=True, scope="module")
def alone():
    """What these plug-ins add is nothing that other tests see."""
    yield
    for file in HERE.glob("*.py"):
        unload_plugin_file(file)


def code_lines(file):
    """Lines with code: without blank lines, comments and docstrings."""
    text = file.read_text()
    scopes = ast.Module | ast.ClassDef | ast.FunctionDef
    said = {
        k
        for node in ast.walk(ast.parse(text))
        if isinstance(node, scopes) and ast.get_docstring(node)
        for k in range(node.body[0].lineno, node.body[0].end_lineno + 1)
    }
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and line[0] != "#" and k not in said for k, line in lines)


@pytest.mark.parametrize("name", LONGEST)
def test_a_sketch_is_short(name):
    assert code_lines(HERE / f"{name}.py") <= LONGEST[name]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_page_lists_a_sketch_and_its_lines(name):
    page = (HERE.parents[1] / "extending.md").read_text()
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `{name}.py`"))
    assert row.split("|")[-2].strip() == str(code_lines(HERE / f"{name}.py"))


def variants(name, engine, *settings):
    given = [f"run.engine={engine}", "run.quick=true", *settings]
    return build_variants(load(HERE / f"{name}.yaml", set=given))


def answers(name, engine, *settings):
    """Samples of each variant, by its name."""
    return {one.name: run_with_replicas(one).samples for one in variants(name, engine, *settings)}


def base(name, engine, *settings):
    return run_with_replicas(variants(name, engine, *settings)[0]).samples


def found(samples, metric):
    return samples[metric].round(12).tolist()


def gangs(*rows):
    """Setting of jobs: GPUs, seconds, arrival."""
    return "workload.given=" + json.dumps(
        [{"gpus": n, "seconds": f"{s} s", "arrives": f"{at} s"} for n, s, at in rows]
    )


FOUR = ("cluster.nodes=1", "cluster.node.gpu.count=4")
OVERTAKEN = gangs((3, 10, 0), (4, 10, 1), (1, 5, 2), (1, 20, 3))
LEAVES_ROOM = gangs((2, 10, 0), (3, 10, 1), (1, 50, 2), (1, 50, 3))


@ENGINES
@pytest.mark.parametrize(
    ("jobs", "order", "queueing"),
    [
        (OVERTAKEN, "fifo", [0, 9, 18, 17]),  # by start: the third and the fourth after the second
        (OVERTAKEN, "backfill", [0, 0, 9, 17]),  # the third ends in time, the fourth does not
        (LEAVES_ROOM, "backfill", [0, 0, 9, 17]),  # one long job fits beside the second, not two
    ],
)
def test_a_gang_gets_its_gpus_at_once_and_nobody_delays_the_first(engine, jobs, order, queueing):
    said = base("gang_scheduler", engine, *FOUR, jobs, f"workload.order={order}")
    assert found(said, "queueing") == queueing


CORE = ("cluster.node.pools.nf.count=1", "cluster.node.store.count=1")
CORES = ("cluster.node.pools.nf.count=2", "cluster.node.store.count=2")
KNOWN, FETCHED = (
    0.5 + 256 / 500,
    0.5 + 768 / 500,
)  # us of a packet, by where the state of its flow is


def packets(flows, every):
    return f"workload.given={json.dumps(flows)}", f"workload.every={every} us"


@ENGINES
def test_a_flow_that_stays_on_its_core_finds_its_state_there(engine):
    """Flow 0 twice and flow 1; with the shortest queue, the state of flow 0 moves to core 1."""
    said = {
        how: base("stateful_nf", engine, *CORES, *packets([0, 0, 1], 1), f"workload.balance={how}")
        for how in ("hash", "shortest")
    }
    late = FETCHED + KNOWN - 1
    assert 1e6 * said["hash"]["latency"] == pytest.approx([FETCHED, late, FETCHED], abs=1e-6)
    last = 2 * FETCHED - 2  # core 0 was busy until then
    assert 1e6 * said["shortest"]["latency"] == pytest.approx([FETCHED, FETCHED, last], abs=1e-6)
    assert [s["fetched"].tolist() for s in said.values()] == [[2], [3]]


@ENGINES
@pytest.mark.parametrize(("room", "fetched"), [("32 KiB", 2), ("1 KiB", 3)])
def test_a_state_leaves_a_core_that_has_no_room(engine, room, fetched):
    size = f"cluster.node.store.size={room}"
    said = base("stateful_nf", engine, *CORE, size, *packets([0, 1, 0], 10))
    assert said["fetched"].tolist() == [fetched]


@ENGINES
@pytest.mark.parametrize(("length", "processed"), [(0, 1), (1, 2), (16, 4)])
def test_a_full_queue_drops_packets(engine, length, processed):
    queue = f"cluster.node.pools.nf.queue.length={length}"
    said = base("stateful_nf", engine, *CORE, queue, *packets([0, 0, 0, 0], 0.1))
    assert said["processed"].tolist() == [processed]
    assert said["dropped"].tolist() == [4 - processed]
    assert len(said["latency"]) == processed


@ENGINES
def test_a_full_queue_sends_packets_to_the_host(engine):
    queue = "cluster.node.pools.nf.queue.length=1"
    said = answers("stateful_nf", engine, *CORE, queue, *packets([0, 0, 0, 0], 0.1))["to-host"]
    assert said["dropped"].tolist() == [0]
    want = [FETCHED, FETCHED + KNOWN - 0.1, 4, 4]
    assert 1e6 * said["latency"] == pytest.approx(want, abs=1e-6)


ALONE, LATENCY = 32.0, 1.9  # us: 16 kB at 4 Gb/s; two NICs and three hops


@ENGINES
@pytest.mark.parametrize(
    ("ways", "choices", "window", "chunks", "us"),
    [
        (1, 1, 1, 2, 2 * (ALONE + LATENCY)),
        (1, 1, 2, 2, 2 * ALONE + LATENCY),  # both share the only path
        (2, 2, 2, 2, ALONE + LATENCY),
        (2, 2, 4, 4, 2 * ALONE + LATENCY),
    ],
)
def test_a_chunk_takes_the_less_used_path(engine, ways, choices, window, chunks, us):
    numbers = {"ways": ways, "choices": choices, "window": window, "flow": f"{16 * chunks} kB"}
    said = base("spraying", engine, *(f"workload.{k}={v}" for k, v in numbers.items()))
    assert 1e6 * said["makespan"] == pytest.approx([us], abs=1e-5)
    assert sorted(said["queue"].tolist()) == [k // ways for k in range(window)] * (chunks // window)


def test_two_choices_keep_queues_of_256_paths_short():
    said = answers("spraying", "core", "workload.flow=16 MB")
    random, two, one = (said[name] for name in ("base", "two-choices", "one-path"))
    assert two["makespan"][0] < 0.85 * random["makespan"][0]
    assert two["queue"].max() < random["queue"].max()
    assert one["makespan"][0] == pytest.approx(16e6 / 0.5e9, rel=1e-3)


def tiering(**numbers):
    return [f"workload.{k}={v}" for k, v in numbers.items()]


ONE_HOT = {"pages": 8, "fast": 1, "heat": 1.0, "epochs": 4, "samples": 10}


@ENGINES
def test_a_hot_page_moves_while_it_is_read(engine):
    """32 kB an epoch from CXL memory at 20 GB/s, next to a page out and in; then at 120 GB/s."""
    said = base("page_tiering", engine, *tiering(**ONE_HOT))
    assert said["hit_rate"].tolist() == [0, 0, 1, 1]
    want = 32 / 20 + (32 + 8.192) / 20 + 2 * 32 / 120
    assert 1e6 * said["makespan"] == pytest.approx([want], abs=1e-5)


@ENGINES
def test_without_moves_all_accesses_stay_slow(engine):
    said = base("page_tiering", engine, *tiering(**ONE_HOT, quota=0))
    assert said["hit_rate"].tolist() == [0, 0, 0, 0]
    assert 1e6 * said["makespan"] == pytest.approx([4 * 32 / 20], abs=1e-5)


def test_tiering_gains_by_heat_and_by_a_sketch_with_room():
    said = answers("page_tiering", "core")
    assert said["base"]["hit_rate"][-1] > 0.9
    assert np.abs(said["no-tiering"]["hit_rate"] - 0.1 * 0.25).max() < 0.01
    assert 3 * said["base"]["makespan"][0] < said["no-tiering"]["makespan"][0]
    assert said["base"]["makespan"][0] < said["small-sketch"]["makespan"][0]
    even = base("page_tiering", "core", "workload.heat=0")
    assert np.abs(even["hit_rate"] - 0.25).max() < 0.03  # no page is hot


class PerToken(Backend):
    """A millisecond for the weights' flop, once a token, and more for attention."""

    source = "the test"

    def timing(self, ops, now=0.0):
        return Timing.of(1e-3 * ops.flop / 16e9)


def cached(engine, blocks):
    gpu = Component("node0.gpu0", "gpu", slots=1)
    cache = Component("node0.kv", "kv", capacity=blocks, unit="block")
    return Simulation(System((gpu, cache), ("node0.gpu0",)), {"*": PerToken()}, engine=engine)


@pytest.fixture(scope="module")
def serving():
    """The two workloads of continuous batching."""
    sys.path.insert(0, str(HERE))
    import paged_serving
    import paged_serving_twin

    yield paged_serving.PagedServing, paged_serving_twin.PagedServingTwin
    sys.path.remove(str(HERE))
    for name in ("paged_serving", "paged_serving_twin"):
        del sys.modules[name]
    foretrace.sim.run.workload.WORKLOADS.pop("paged-serving")


def trace(folder, rows):
    file = folder / "trace.csv"
    file.write_text("\n".join(["at,prompt,output", *(",".join(map(str, row)) for row in rows)]))
    return file


def server(workload, file, **settings):
    """Server whose grid has few points, as times are linear here."""
    made = workload(trace=file, **settings)
    made.axes = {name: [0, 10**5] for name in made.axes}
    return made


def decode(*contexts):
    """Duration in ms of a decode of sequences with these tokens each."""
    return len(contexts) + sum(contexts) * 4 * 32 * 4096 / 16e9


@ENGINES
def test_a_batch_grows_token_by_token(serving, engine, tmp_path):
    """The second request is prefilled next to the second token of the first."""
    made = server(serving[0], trace(tmp_path, [(0, 16, 3), (0, 8, 1)]))
    said = cached(engine, 8).run(made).emitted.samples
    second = decode(17) + 8
    assert 1e3 * said["ttft"] == pytest.approx([16, 16 + second], abs=1e-6)
    assert 1e3 * said["tpot"] == pytest.approx([(second + decode(18)) / 2], abs=1e-6)
    assert said["preempted"].tolist() == [0]


@ENGINES
def test_without_batching_a_request_waits_for_the_one_before(serving, engine, tmp_path):
    made = server(serving[0], trace(tmp_path, [(0, 16, 3), (0, 8, 1)]), sequences=1)
    said = cached(engine, 8).run(made).emitted.samples
    assert 1e3 * said["ttft"] == pytest.approx([16, 16 + decode(17) + decode(18) + 8], abs=1e-6)


@ENGINES
def test_the_youngest_is_computed_again_if_blocks_run_out(serving, engine, tmp_path):
    """Two blocks each of four; with token 17 the first needs a third, and the second leaves."""
    made = server(serving[0], trace(tmp_path, [(0, 16, 20), (0, 16, 20)]))
    said = cached(engine, 4).run(made).emitted.samples
    steps = {2: decode(17) + 16} | {k: decode(15 + k, 14 + k) for k in range(3, 17)}
    steps |= {k: decode(15 + k) for k in range(17, 21)} | {21: 31}
    steps |= {k: decode(10 + k) for k in range(22, 26)}
    took = [sum(ms for k, ms in steps.items() if a <= k <= b) / 19 for a, b in ((2, 20), (3, 25))]
    assert 1e3 * said["tpot"] == pytest.approx(took, abs=1e-6)
    assert said["preempted"].tolist() == [1]
    assert cached(engine, 6).run(made).emitted.samples["preempted"].tolist() == [0]


def test_a_request_that_no_cache_holds_is_refused(serving, tmp_path):
    made = server(serving[0], trace(tmp_path, [(0, 100, 1)]))
    with pytest.raises(foretrace.SimulationError, match=r"node0\.kv: "):
        cached("core", 4).run(made)


@pytest.mark.parametrize(("blocks", "most"), [(12, 128), (20, 3), (20, 128), (200, 128)])
def test_the_scheduler_equals_its_twin(serving, tmp_path, blocks, most):
    random = np.random.default_rng(blocks)
    at = random.integers(0, 40, 40).cumsum() * 0.002  # many wait
    rows = list(zip(at, random.integers(1, 90, 40), random.integers(1, 60, 40), strict=True))
    kernel, twin = (server(one, trace(tmp_path, rows), sequences=most) for one in serving)
    check_same_run(cached("core", blocks), kernel, twin)
    preempted = cached("core", blocks).run(kernel).emitted.samples["preempted"][0]
    assert (preempted > 0) == (blocks < 200 and most == 128)


SHORT = {
    "paged_serving": ("workload.rate=20",),
    "page_tiering": ("workload.epochs=5",),
    "spraying": ("workload.flow=2 MB",),
    "stateful_nf": ("workload.packets=200",),
    "gang_scheduler": ("workload.jobs=40",),
}
EMITTED = {
    "paged_serving": {"ttft", "tpot", "preempted"},
    "page_tiering": {"hit_rate"},
    "spraying": {"chunk_time", "queue"},
    "stateful_nf": {"latency", "processed", "fetched"},
    "gang_scheduler": {"queueing", "completion"},
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_sketch_runs_from_its_file_and_its_metrics_are_on_the_page(cli, tmp_path, name):
    folder = tmp_path / "plugins"
    shutil.copytree(HERE, folder)
    file = trace(folder, [(0.01 * k, 100 + k, 5) for k in range(30)])
    given = [word for text in SHORT[name] for word in ("--set", text)]
    given += ["--set", f"workload.trace={file}"] if name == "paged_serving" else []
    code, _, err = cli("run", folder / f"{name}.yaml", "--quick", "--out", tmp_path / "out", *given)
    assert code in (0, 5), err
    made = next((tmp_path / "out").rglob("summary.json"))
    metrics = json.loads(made.read_text())["points"]["base"]["metrics"]
    assert EMITTED[name] <= {key for key in metrics} | {key.rpartition(".")[0] for key in metrics}
    page = made.with_name("report.html").read_text()
    assert all(metric in page for metric in EMITTED[name])
    for file in folder.glob("*.py"):
        unload_plugin_file(file)
