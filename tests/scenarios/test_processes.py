"""What steers a run, named in a file; and plug-ins of one's own that fail or are not heard."""

import itertools
import json

import pytest
from foretrace.__main__ import main
from foretrace.scenarios.loader import loads
from foretrace.scenarios.points import measured, point
from foretrace.scenarios.problems import InvalidScenarioError
from foretrace.scenarios.settings import known_backends
from foretrace.sim.backend import BACKENDS
from foretrace.sim.errors import ScenarioError
from foretrace.sim.process import PROCESSES

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
    return measured(point(loads(text))).result.makespan


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
        ("{at: 1 s}", "'use' is missing; it names the process"),
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
    known_backends()  # ours are imported when they are first asked for
    names = set(PROCESSES), set(BACKENDS)

    def write(text):
        name = f"of-a-test-{next(NUMBERS)}"
        (tmp_path / "mine.py").write_text(text.replace("NAME", name))
        return name

    yield write
    for table, before in zip((PROCESSES, BACKENDS), names, strict=True):
        for name in set(table) - before:
            del table[name]


def test_a_policy_of_ones_own_runs_from_a_file_and_what_it_notes_is_in_the_result(plugged):
    name = plugged(POLICY)
    text = FIRST + f"plugins: [mine.py]\nprocesses: [{{use: {name}, period: 10 ms}}]\n"
    found = measured(point(loads(text))).result.metrics
    times = [at for metric, at, _ in found if metric == "busy"]
    assert len(times) > 5
    assert times[:3] == pytest.approx([0.01, 0.02, 0.03])


LINK = '''
from foretrace import backend
from foretrace.models.network.link import Link
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
    system = point(loads(FIRST + BOUND.replace("NAME", name))).simulation.system
    nics = [c for c in system.components if c.kind == "nic"]
    assert [(c.rate, c.latency) for c in nics] == [(0.125e9, 1e-6)] * 4
    assert seconds(FIRST + BOUND.replace("NAME", name)) > seconds(FIRST)


def test_a_backend_that_nobody_would_ask_is_refused():
    bound = BOUND.replace("plugins: [mine.py]\n", "").replace("NAME", "lossy-link")
    text = FIRST + bound.replace("1 us", "1 us, loss: 0.1, round_trip: 1 us")
    with pytest.raises(ScenarioError, match=r"LossyLink.timing\(\) would be asked nothing"):
        point(loads(text))


def test_a_constructor_without_annotations_is_no_schema(plugged):
    name = plugged(LINK.replace(": ByteRate", ""))
    with pytest.raises(InvalidScenarioError) as told:
        loads(FIRST + BOUND.replace("NAME", name))
    assert f"backend '{name}': 'bandwidth' of Mine() has no annotation" in str(told.value)


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
