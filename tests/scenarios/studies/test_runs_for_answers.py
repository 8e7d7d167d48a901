"""Runs of which only the answer is wanted: the same answers as runs that keep all, and fewer."""

import json

import numpy as np
import pytest
from foretrace.scenarios.cli.terminal.progress import SECONDS_PER_LINE, RunProgress
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.confidence.break_even import HALVINGS, break_even_errors
from foretrace.scenarios.studies.confidence.defence import TRIED
from foretrace.scenarios.studies.confidence.uncertainty import components_by_kind
from foretrace.scenarios.studies.run.plan import plan
from foretrace.scenarios.studies.variants import variant
from foretrace.scenarios.studies.variants.executor import point_map_function
from foretrace.scenarios.studies.variants.samples import deciding_samples, headline_value
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.rerun.sensitivity import scale_components

MODEL = """
foretrace: 1
name: model
workload: {type: training, model: gpt2, batch: 8, sequence: 1024}
cluster:
  nodes: 2
  node:
    gpu: {model: h100-sxm5-80g, count: 2}
    nic: {model: connectx-7, count: 2}
    links: [{from: gpu, to: gpu, via: nvlink4}, {from: gpu, to: nic, via: pcie5-x16}]
  fabric: {library: nccl-nvlink4, switch: tomahawk-5}
backends: {"node*.gpu*": {use: roofline}}
"""
PAIR = f"{MODEL}what_if: [{{name: half, set: {{cluster.node.nic.bandwidth: 200 Gb/s}}}}]\n"


@pytest.fixture(autouse=True)
def large(monkeypatch):
    """Every template counts as large."""
    monkeypatch.setattr(variant, "LARGE", 1)


@pytest.fixture(scope="module")
def points():
    return build_variants(loads(PAIR))


def machines(point):
    """The machine, and each kind of its parts slower, quicker and free."""
    kinds = components_by_kind(point.simulation).values()
    ways = [
        scale_components(point.simulation, rows, by) for rows in kinds for by in (0.7, 1.1, np.inf)
    ]
    return [point.simulation, *ways]


def test_a_run_for_its_answer_keeps_no_rows_and_takes_as_many_ticks(points):
    base = points[0]
    for simulation in machines(base):
        point = base.with_simulation(simulation)
        whole, lean = point.run(), point.run_for_answer()
        assert whole.written is not None
        assert lean.written is None
        assert lean.makespan_ticks == whole.makespan_ticks
        assert headline_value(point, lean) == headline_value(point, whole)


@pytest.mark.parametrize("metric", ["exposed_communication.mean", "waiting.mean", "mfu.p50"])
def test_any_answer_of_ranks_and_iterations_is_the_same(metric):
    better = "maximize" if metric == "mfu.p50" else "minimize"
    (point,) = build_variants(loads(MODEL, set=[f"answer={{{better}: {metric}}}"]))
    lean = point.run_for_answer()
    assert lean.written is None
    assert headline_value(point, lean) == headline_value(point, point.run())


def test_an_answer_over_windows_of_the_run_keeps_its_rows():
    (point,) = build_variants(loads(MODEL, set=["answer={minimize: gpu.utilization.mean}"]))
    assert point.run_for_answer().written is not None


def test_a_small_template_keeps_its_rows(points, monkeypatch):
    monkeypatch.setattr(variant, "LARGE", len(points[0].graph) + 1)
    assert points[0].run_for_answer().written is not None


def test_a_part_of_which_no_fact_changes_leaves_the_machine_as_it_is(points):
    simulation = points[0].simulation
    rows = components_by_kind(simulation)
    assert scale_components(simulation, rows["gpu"], 1.1).system is simulation.system
    assert scale_components(simulation, rows["nic"], 1.1).system is not simulation.system


def plain_search(points, chosen):
    """The smallest error that flips the answer, each size after the other, with all rows kept."""

    def answer(error):
        found = []
        for point in points:
            one = point
            if error:
                one = point.with_simulation(
                    scale_components(point.simulation, chosen, 1 / (1 + error))
                )
            found.append(deciding_samples(one, one.run())["iteration_time"])
        time = points[0].answer.of({"iteration_time": found[0]})
        medians = [points[0].answer.of({"iteration_time": one}) for one in found]
        held = [e.that.holds(time) for e in points[0].scenario.expect]
        return medians.index(min(medians)), held

    base, flips = answer(0.0), []
    for sign in (1, -1):
        low = 0.0
        for size in TRIED:
            error = size if sign > 0 else 1 / (1 + size) - 1
            if answer(error) != base:
                for _ in range(HALVINGS):
                    middle = (low + error) / 2
                    if answer(middle) == base:
                        low = middle
                    else:
                        error = middle
                flips.append(error)
                break
            low = error
    return min(flips, key=abs, default=None)


@pytest.mark.parametrize(
    ("most", "least"),
    [
        (1.4, 0.95),
        pytest.param(1.04, 0.5, marks=pytest.mark.nightly),
        pytest.param(9.0, 0.1, marks=pytest.mark.nightly),
    ],
)
def test_break_even_errors_are_those_of_a_plain_search(points, most, least):
    time = headline_value(points[0], points[0].run())
    bars = [f"<= {most * time:.6g} s", f">= {least * time:.6g} s"]
    expected = ", ".join(f"{{that: iteration_time.p50 {bar}}}" for bar in bars)
    barred = build_variants(loads(f"{PAIR}expect: [{expected}]"))
    rows = components_by_kind(barred[0].simulation)
    assert components_by_kind(barred[1].simulation) == rows
    kinds = {kind: lambda _, kind=kind: rows[kind] for kind in ("gpu", "nic")}
    with point_map_function(2) as given:
        found = break_even_errors(barred, kinds, given(barred[0]))
    for one in found:
        assert one["error"] == plain_search(barred, rows[one["component"]])
    assert all(one["error"] is None for one in found) == (most == 9.0)


def test_a_search_tries_no_error_beyond_one_that_flips_the_answer(points):
    time, runs = headline_value(points[0], points[0].run()), []
    bar = f"expect: [{{that: iteration_time.p50 <= {1.001 * time:.8g} s}}]"
    barred = build_variants(loads(PAIR + bar))

    def each(do, items):
        runs.append(len(items))
        return map(do, items)

    every = {"machine": lambda system: range(len(system.components))}
    (found,) = break_even_errors(barred, every, each)
    assert 0 < found["error"] < 1 - 1 / (1 + TRIED[0])
    assert runs == [len(barred)] * (1 + 1 + HALVINGS + 1)  # as it is, slower, and once quicker


def test_plan_tells_what_it_takes_to_defend(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.yaml").write_text(MODEL)
    code, out, _ = cli("plan", "model.yaml", "--defend")
    assert (code, "that defend the answer" in out) == (0, True)
    plain, whole = (
        json.loads(cli("plan", "model.yaml", "--json", *more)[1]) for more in ((), ("--defend",))
    )
    assert whole["simulations"] == plain["simulations"] + whole["defending"]
    assert whole["seconds"] > plain["seconds"]


def test_a_plan_of_a_defended_run_tells_its_time_where_there_is_a_sweep_too():
    """The work of the search was told beside the hundreds of runs of the defence."""
    swept = MODEL + "sweep: {vary: {cluster.fabric.oversubscription: [1, 2]}}\n"
    defended = ["run.defend=true"]
    asked = ((MODEL, defended), (swept, defended), (swept, []))
    alone, beside, search = (plan(loads(text, set=sets)) for text, sets in asked)
    assert (beside.op_runs, beside.seconds) == (alone.op_runs, alone.seconds)
    assert search.op_runs < beside.op_runs


def test_without_a_terminal_a_line_says_now_and_then_how_much_is_left(capsys):
    now = [0.0]
    progress = RunProgress(quiet=False, clock=lambda: now[0])
    line = SECONDS_PER_LINE
    for done, at in ((1, line - 9), (10, line), (11, line + 1), (20, 2 * line)):
        now[0] = at
        progress.count(done, 40)
    assert capsys.readouterr().err.splitlines() == [
        "10 of about 40 runs done, about 30 s left",  # one a second since the first
        "20 of about 40 runs done, about 60 s left",  # ten since the line before
    ]


def test_the_first_run_which_compiles_says_nothing_of_the_others(capsys):
    """Of 105 runs of 0.2 s it said "about 6949 s left"."""
    now = [0.0]
    progress = RunProgress(quiet=False, clock=lambda: now[0])
    now[0] = 2 * SECONDS_PER_LINE
    progress.count(1, 105)
    assert capsys.readouterr().err == "1 of about 105 runs done\n"
