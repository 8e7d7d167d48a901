"""What steers a run, named in a file; and plug-ins of one's own that fail or are not heard."""

import itertools
import json

import numpy as np
import pytest
from foretrace.__main__ import main
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.config.schema import scenario_model
from foretrace.scenarios.config.settings import known_backends, known_workloads
from foretrace.scenarios.studies.sweep.task import evaluate_point, make_task, shared_task_part
from foretrace.scenarios.studies.variants.process_check import impossible_process_problems
from foretrace.scenarios.studies.variants.variants import build_variant, run_with_replicas
from foretrace.sim.errors import ScenarioError, SimulationError
from foretrace.sim.facts.backend import BACKENDS
from foretrace.sim.facts.ops import Kind
from foretrace.sim.run.process import PROCESSES
from foretrace.sim.run.workload import WORKLOADS

FIRST = """\
foretrace: 1
name: small
extends: foretrace:first
workload: {scale_to: {parallel: {data: 2}}, iterations: {measure: 1}}
cluster: {nodes: 2}
what_if: []
run: {replicas: 1}
"""
NUMBERS = itertools.count()


def seconds(text):
    return run_with_replicas(build_variant(loads(text))).result.makespan


@pytest.fixture(scope="module")
def undisturbed():
    return seconds(FIRST)


SLOW = "processes: [{use: degrade, component: node0.nic0.tx, at: 0 s, slowdown: 50}]\n"


def test_a_slower_nic_makes_a_run_longer_and_a_short_fault_costs_less(undisturbed):
    long = seconds(FIRST + SLOW)
    short = seconds(FIRST + SLOW.replace("at: 0 s,", "at: 0 s, lasts: 500 ms,"))
    assert undisturbed < short < long


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("degrad", "no process named 'degrad'; did you mean 'degrade'?"),
        ("{at: 1 s}", "'use' is missing; write use: NAME, the name of the process"),
        ("{use: degrade, component: node0.nic0.tx}", "'at' is missing"),
        ("{use: degrade, component: node0.nic0.tx, at: 1 GB}", "'1 GB' is not a time"),
        ("{use: degrade, component: x, at: 1 s, slow: 3}", "unknown key 'slow'"),
    ],
)
def test_a_process_that_is_wrong_is_refused_with_its_cure(written, message):
    with pytest.raises(InvalidScenarioError) as told:
        loads(FIRST + f"processes: [{written}]\n")
    assert message in str(told.value)
    assert "processes.0" in str(told.value)


POLICY = '''
from foretrace import process
from foretrace.sim.units import Seconds

@process("NAME")
class Watch:
    """Counts its looks.

    Parameters
    ----------
    period : Seconds
        Between two looks.
    """

    touches = ()

    def __init__(self, *, period: Seconds):
        self.period = period

    def __call__(self, sim):
        while True:
            yield sim.wait(self.period)
            sim.emit("busy", sim.utilisation("node0.nic0.tx"))
'''


@pytest.fixture
def plugged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known_backends(), known_workloads()  # ours are imported when they are first asked for
    tables = PROCESSES, BACKENDS, WORKLOADS
    names = [set(table) for table in tables]

    def write(text):
        name = f"of-a-test-{next(NUMBERS)}"
        (tmp_path / "mine.py").write_text(text.replace("NAME", name))
        return name

    yield write
    for table, before in zip(tables, names, strict=True):
        for name in set(table) - before:
            del table[name]
    scenario_model.cache_clear()


def test_a_policy_of_ones_own_runs_from_a_file_and_what_it_notes_is_in_the_result(plugged):
    name = plugged(POLICY)
    text = FIRST + f"plugins: [mine.py]\nprocesses: [{{use: {name}, period: 10 ms}}]\n"
    found = run_with_replicas(build_variant(loads(text))).result.metrics
    times = [at for metric, at, _ in found if metric == "busy"]
    assert len(times) > 5
    assert times[:3] == pytest.approx([0.01, 0.02, 0.03])


LINK = '''
from foretrace import backend
from foretrace.models.network.part.link import Link
from foretrace.sim.units import ByteRate, Seconds

@backend("NAME")
class Mine(Link):
    """A link of a test."""

    def __init__(self, *, bandwidth: ByteRate, latency: Seconds):
        super().__init__(bandwidth=bandwidth / 8, latency=latency)
'''
BOUND = (
    'plugins: [mine.py]\nbackends: {"node*.nic*": {use: NAME, bandwidth: 1 GB/s, latency: 1 us}}\n'
)


def test_a_link_model_of_ones_own_carries_what_the_nics_carried(plugged):
    name = plugged(LINK)
    system = build_variant(loads(FIRST + BOUND.replace("NAME", name))).simulation.system
    nics = [c for c in system.components if c.kind == "nic"]
    assert [(c.rate, c.latency) for c in nics] == [(0.125e9, 1e-6)] * 4
    assert seconds(FIRST + BOUND.replace("NAME", name)) > seconds(FIRST)


OWN = (
    LINK
    + """
    def timing(self, ops, now=0.0):
        return super().timing(ops, now)
"""
)


def test_a_backend_that_nobody_would_ask_is_refused(plugged):
    name = plugged(OWN)
    with pytest.raises(ScenarioError, match=r"Mine.timing\(\) would never be called"):
        build_variant(loads(FIRST + BOUND.replace("NAME", name)))


LOSSY = """\
backends: {"node*.nic*.tx": {use: lossy-link, loss: LOSS, round_trip: 1 ms, mtu: 1460 B}}
"""


@pytest.mark.nightly
def test_losses_bound_each_sender_and_cost_rate(undisturbed):
    few = build_variant(loads(FIRST + LOSSY.replace("LOSS", "0.01 %")))
    sends = few.simulation.system["node0.nic0.tx"]
    assert sends.limit == pytest.approx(1460 / 1e-3 * (1.5 / 1e-4) ** 0.5)  # 179 MB/s
    assert few.simulation.system["node0.nic0.rx"].limit == float("inf")
    many = seconds(FIRST + LOSSY.replace("LOSS", "1 %"))
    assert undisturbed < run_with_replicas(few).result.makespan < many


@pytest.mark.parametrize("fidelity", ["flow", "alpha-beta"])
def test_what_a_collective_may_send_is_what_its_losses_allow(fidelity):
    text = FIRST + LOSSY.replace("LOSS", "1 %") + "expect: []\n"
    made = build_variant(loads(text, set=[f"cluster.fabric.fidelity={fidelity}"]))
    ops = made.graph.ops
    row = int(np.nanargmax(np.where(ops.kind == int(Kind.COLLECTIVE), ops.bytes, 0.0)))
    members = tuple(made.simulation.system.number(f"node{i}.gpu0") for i in range(2))
    fabric = made.simulation.backends["fabric"]
    (way, *_) = fabric.candidate_plans("all-reduce", members, made.simulation.system)
    limit = 1460 / 1e-3 * 150**0.5
    assert way.load.limit == pytest.approx(limit)  # a ring of two: each sends all of it once
    (start,) = way.start(ops.bytes[[row]])
    took = made.run().columns
    least = ops.bytes[row] / limit * 1e12
    assert (took.end - took.start)[row] == pytest.approx(start * 1e12 + least, rel=1e-6)


def test_a_constructor_without_annotations_is_no_schema(plugged):
    name = plugged(LINK.replace(": ByteRate", ""))
    with pytest.raises(InvalidScenarioError) as told:
        loads(FIRST + BOUND.replace("NAME", name))
    assert "': 'bandwidth' of Mine() has no annotation, so its unit is unknown" in str(told.value)


GPU = """
from foretrace import Backend, backend

@backend("NAME")
class Mine(Backend):
    def timing(self, ops, now=0.0):
        return None
"""
WORK = """
from foretrace import Workload, workload

@workload("NAME")
class Mine(Workload):
    def start(self, job):
        pass
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            POLICY.replace("(self, sim)", "(self)"),
            "takes other arguments; write 'def __call__(self, sim",
        ),
        (POLICY.replace("__call__", "run"), "has no __call__(); write 'def __call__(self, sim)'"),
        (POLICY.replace("yield ", ""), "__call__(self, sim) never yields; write 'yield sim.wait("),
        (
            GPU.replace(", now=0.0", ""),
            "timing(self, ops) takes other arguments; write 'def timing(self",
        ),
        (GPU.replace("timing", "time"), "Mine has no timing(); write 'def timing(self, ops, now="),
        (
            GPU.replace("class Mine(Backend)", "def mine()"),
            "mine is not a class; write a class with",
        ),
        (
            WORK.replace("(self, job)", "(self)"),
            "start(self) takes other arguments; write 'def start(sel",
        ),
        (WORK.replace("start(", "begin("), "Mine has no start(); write 'def start(self, job)'"),
    ],
)
def test_a_plug_in_that_could_not_be_asked_is_refused_when_it_is_read(plugged, text, said):
    plugged(text)
    with pytest.raises(InvalidScenarioError) as told:
        loads(FIRST + "plugins: [mine.py]\n")
    assert said in str(told.value)
    assert "plugins.0" in str(told.value)


def test_a_workload_that_starts_nothing_is_told_so(plugged):
    name = plugged(WORK)
    text = f"foretrace: 1\nname: x\nplugins: [mine.py]\nworkload: {{type: {name}}}\n"
    with pytest.raises(
        ScenarioError, match="start returned a NoneType; return a Graph, or a process"
    ):
        build_variant(loads(text + "cluster: {nodes: 1, node: {gpu: epyc-zen4-core}}\n"))


def test_a_policy_that_yields_a_number_is_told_what_to_wait_for(plugged, capsys, monkeypatch):
    name = plugged(POLICY.replace("yield sim.wait(self.period)", "yield self.period"))
    with open("s.yaml", "w") as file:
        file.write(f"{FIRST}plugins: [mine.py]\nprocesses: [{{use: {name}, period: 10 ms}}]\n")
    monkeypatch.setattr("sys.argv", ["foretrace", "run", "s.yaml"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "it yields '0.01'; yield sim.wait(seconds) or another event" in last


def test_a_plug_in_that_fails_while_it_runs_is_blamed_and_not_we(plugged, capsys, monkeypatch):
    name = plugged(POLICY.replace('sim.emit("busy"', 'sim.emit(1 / 0, "busy"'))
    text = FIRST + f"plugins: [mine.py]\nprocesses: [{{use: {name}, period: 10 ms}}]\n"
    with open("s.yaml", "w") as file:
        file.write(text)
    monkeypatch.setattr("sys.argv", ["foretrace", "run", "s.yaml"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error plug-in 'mine.py' fails in line ")
    assert "ZeroDivisionError" in last


def test_settings_of_one_key_can_take_values_of_their_own(tmp_path, monkeypatch):
    from foretrace import sweep

    monkeypatch.chdir(tmp_path)
    text = (
        FIRST.replace("measure: 1}", "measure: 1}, tokens_per_iteration: 100")
        + """\
cost: {items: [{what: nic, each: 1 USD/hour}]}
sweep:
  vary:
    cluster.node.nic.bandwidth, cost.items.0.each: [[1 Gb/s, 1 USD/hour], [1 Gb/s, 3 USD/hour]]
"""
    )
    done = sweep(loads(text), workers="local:1")
    one, other = (t.values["cost_per_million_tokens"] for t in done.trials)
    assert other == pytest.approx(3 * one)
    assert done.trials[1].settings == {
        "cluster.node.nic.bandwidth, cost.items.0.each": "1 Gb/s, 3 USD/hour"
    }
    assert json.dumps(done.summary())


SPARE = """\
processes:
  - {use: fail, component: node0.gpu0, at: 100 ms}
  - {use: hot-spare, spares: [node2.gpu0], period: 50 ms, swap: 200 ms}
"""


@pytest.mark.nightly
def test_a_spare_that_a_file_names_takes_over_and_costs_its_time(undisturbed):
    three = FIRST.replace("nodes: 2}", "nodes: 3}")
    assert seconds(three) == pytest.approx(undisturbed)
    alone = three + SPARE.splitlines()[0] + "\n" + SPARE.splitlines()[1] + "\n"
    with pytest.raises(SimulationError, match=r"node0\.gpu0"):
        seconds(alone)
    saved = run_with_replicas(
        build_variant(loads(three.replace("replicas: 1", "replicas: 2") + SPARE))
    )
    assert undisturbed + 0.2 < saved.result.makespan < 2 * undisturbed + 0.4
    assert len(saved.replicas) == 2  # a spare each


def test_a_spare_that_is_not_there_is_named():
    text = FIRST + SPARE.replace("node2.gpu0", "node9.gpu0")
    with pytest.raises(SimulationError, match=r"hot-spare: no component is named 'node9\.gpu0'"):
        seconds(text)


def test_a_nic_that_fails_with_its_gpu_is_left_behind_with_it(undisturbed):
    both = SPARE.replace("  - {use: hot", "  - {use: fail, component: node0.nic0.tx, at: 100 ms}\n"
                         "  - {use: hot")  # fmt: skip
    end = seconds(FIRST.replace("nodes: 2}", "nodes: 3}") + both)  # its data go by the spare's NIC
    assert undisturbed + 0.2 < end < 2 * undisturbed + 0.4


@pytest.mark.nightly
def test_a_spare_of_another_part_takes_the_time_of_that_part():
    three = FIRST.replace("nodes: 2}", "nodes: 3}") + SPARE
    slow = three.replace("nodes: 3}", "nodes: 3, override: {node2.gpu0: {slowdown: 3}}}")
    assert seconds(slow) > 1.5 * seconds(three)


TRAINING = '''
from foretrace import Builder, Kind, Metric, Periodic, workload

@workload("NAME")
class Training(Periodic):
    """A step that takes as long as its tokens."""

    metrics = (*Periodic.metrics, Metric("tokens_per_second", "token/s", "Of the job."))

    def __init__(self, *, tokens_per_iteration: int):
        self.tokens = tokens_per_iteration

    def start(self, job):
        build = Builder("step")
        build.op(Kind.COMPUTE, flop=1e9 * self.tokens, bytes=0.0, signature="compute:mm bf16[]")
        return build.graph()

    def measure(self, result):
        found = dict(super().measure(result))
        return found | {"tokens_per_second": self.tokens / found["iteration_time"]}
'''
MACHINE = "cluster: {nodes: 1, node: {gpu: {model: h100-sxm5-80g, count: 2}}}\n"
PREDICTED = 'backends: {"node*.gpu*": {use: roofline}}\n'


def test_tokens_of_a_plug_in_workload_are_paid_for_like_those_of_a_trace(plugged):
    name = plugged(TRAINING)
    text = f"foretrace: 1\nname: x\nplugins: [mine.py]\n{MACHINE}{PREDICTED}"
    text += f"workload: {{type: {name}, tokens_per_iteration: 100}}\n"
    text += "cost: {items: [{what: gpu, each: 3600 USD/hour}]}\n"
    found = run_with_replicas(build_variant(loads(text))).samples
    time = found["iteration_time"].item() / 100
    assert found["gpu_time_per_million_tokens"].item() == pytest.approx(2 * time * 1e6)
    assert found["cost_per_million_tokens"].item() == pytest.approx(2 * time * 1e6)


COMPILED = """
from foretrace import Builder, CompiledProcess, Kind, Metric, Workload, process, workload
from foretrace.sim.kernel import policy

def submits(state, event, turn):
    if event[policy.KIND] == policy.START:
        policy.submit(turn, 0, 0)
        return policy.GO_ON
    return step(state, event, turn)

def step(state, event, turn):
    if event[policy.KIND] == policy.START:
        policy.after(turn, 7 * policy.ticks_per_second(turn), 0)
        return policy.GO_ON
    policy.emit(turn, 0, event[policy.NOW] / policy.ticks_per_second(turn))
    return policy.DONE

@workload("NAME")
class Mine(Workload):
    metrics = (Metric("woken", "s", "When it is woken.", better="lower"),)
    headline = "woken.mean"
    def start(self, job):
        build = Builder("op")
        build.op(Kind.COMPUTE, duration=7.0)
        return CompiledProcess(submits, metrics=["woken"], graphs={"op": build.graph()})

@process("NAME-process")
class Own(CompiledProcess):
    def __init__(self, *, metric: str):
        super().__init__(step, metrics=[metric])

@process("NAME-made")
class Made:
    def __call__(self, sim) -> CompiledProcess:
        return CompiledProcess(step, metrics=["made"])
"""


def test_workloads_and_processes_of_a_file_may_be_compiled(plugged):
    name = plugged(COMPILED)
    text = f"foretrace: 1\nname: x\nplugins: [mine.py]\nworkload: {{type: {name}}}\n"
    text += 'backends: {"node*.gpu*": {use: recorded}}\n'
    text += f"processes: [{{use: {name}-process, metric: own}}, {name}-made]\n"
    found = run_with_replicas(build_variant(loads(text + MACHINE))).result.metrics
    assert sorted(found) == [("made", 7.0, 7.0), ("own", 7.0, 7.0), ("woken", 7.0, 7.0)]


def test_a_compiled_process_runs_next_to_a_trace(plugged):
    name = plugged(COMPILED)
    text = FIRST + f"plugins: [mine.py]\nprocesses: [{{use: {name}-process, metric: own}}]\n"
    point = build_variant(loads(text))
    assert list(impossible_process_problems(point)) == []
    assert run_with_replicas(point).result.metrics == (("own", 7.0, 7.0),)


def test_what_a_policy_emits_has_the_unit_that_it_says(plugged):
    emits = POLICY.replace('sim.emit("busy", sim.utilisation("node0.nic0.tx"))',
                           'sim.emit("moved", 3.0, "B")')  # fmt: skip
    name = plugged(emits)
    text = FIRST + f"plugins: [mine.py]\nprocesses: [{{use: {name}, period: 10 ms}}]\n"
    done = run_with_replicas(build_variant(loads(text)))
    assert done.metrics["moved"].unit == "B"


TALKS = '''
from foretrace import process
from foretrace.sim.units import Seconds

@process("NAME")
class Talks:
    """Says how long it looks.

    Parameters
    ----------
    look : Seconds
        How long.
    """

    touches = ()

    def __init__(self, *, look: Seconds):
        self.look = look

    def __call__(self, sim):
        print("I look for", self.look)
        if self.look > 1:
            raise ValueError("too long")
        yield sim.wait(self.look)
'''


@pytest.fixture
def talking(plugged, tmp_path):
    def write(look):
        use = f"processes: [{{use: {plugged(TALKS)}, look: {look}}}]\n"
        (tmp_path / "talks.yaml").write_text(FIRST + "plugins: [mine.py]\n" + use)

    return write


def test_what_a_process_prints_is_apart_from_the_answer_and_kept_once(talking, cli, tmp_path):
    talking("10 ms")
    code, out, err = cli("run", "talks.yaml")
    assert code == 0
    assert "I look" not in out + err
    (kept,) = tmp_path.glob("runs/small/*/prints.*.txt")
    assert kept.name == "prints.base.txt"
    assert kept.read_text() == "I look for 0.01\n"
    assert f"first simulation of each variant: {kept.relative_to(tmp_path)}" in err


def test_how_often_a_process_runs_is_what_plan_and_run_say(talking, cli):
    talking("10 ms")
    _, out, err = cli("run", "talks.yaml", "--prints", "--json")
    said = err.count("I look for 0.01")
    assert json.loads(out)["points"]
    (planned,) = json.loads(cli("plan", "talks.yaml", "--json")[1])["process_runs"].values()
    assert 10 < said <= planned
    assert f"run in every simulation, about {planned} times" in cli("plan", "talks.yaml")[1]
    assert f"its processes run about {planned} times" in cli("run", "talks.yaml", "--no-cache")[2]


def test_what_a_process_printed_before_it_failed_is_shown(talking, cli):
    talking("2 s")
    code, out, err = cli("run", "talks.yaml")
    assert code != 0
    assert "I look for 2" in err
    assert "I look" not in out


def test_points_of_a_sweep_print_nothing_among_its_answer(talking, capsys):
    talking("10 ms")
    outcome = evaluate_point(make_task(shared_task_part(load("talks.yaml")), {}))
    assert outcome["values"]["makespan"] > 0
    assert capsys.readouterr() == ("", "")
