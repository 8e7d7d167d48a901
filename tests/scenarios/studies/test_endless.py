"""A policy that submits for ever is named, with what it submitted, before memory is full of it."""

import itertools
import re

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.building.error_context import error_with_cure
from foretrace.scenarios.studies.building.limits import TimeLimitExceeded
from foretrace.scenarios.studies.variants.variants import build_variant
from foretrace.sim.errors import SimulationError
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.run.process import PROCESSES

NUMBERS = itertools.count()
POLICY = '''
from foretrace import process
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind

@process("NAME")
class Forever:
    """Submits one pause after the other."""

    def __call__(self, sim):
        build = Builder("more")
        build.op(Kind.DELAY, duration=1e-3)
        while True:
            yield sim.submit(build.graph()).done
'''
TEXT = """\
foretrace: 1
name: endless
plugins: [mine.py]
workload: {type: transfers, ops: [{op: "send:write", bytes: 1 MiB, from: [0], to: 1}]}
cluster:
  nodes: 2
  node: {gpu: {streams: 1}, host: {cores: 1}, nic: {bandwidth: 25 GB/s, latency: 1 us}}
processes: [NAME]
run: {memory: 247 MB}
"""


def pause():
    build = Builder("a pause")
    build.op(Kind.DELAY, duration=1e-3)
    return build.graph()


@pytest.fixture
def endless(tmp_path, monkeypatch):
    name = f"endless-of-a-test-{next(NUMBERS)}"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(POLICY.replace("NAME", name))
    yield build_variant(loads(TEXT.replace("NAME", name)))
    PROCESSES.pop(name, None)


def test_what_does_not_fit_into_memory_is_refused_with_the_process_and_its_ops(endless):
    with pytest.raises(SimulationError) as told:
        endless.run()
    said = re.fullmatch(
        r"memory: Forever: has submitted (\d+) ops in (\d+) graphs, and the next does not fit into "
        r"2 MB: "
        r"497 ops of 497 graphs are in memory, because rows of ended ops are kept; make "
        r"the run shorter, keep fewer rows \(run\.keep: ranks\), or raise run\.memory",
        str(told.value),
    )
    ops, graphs = map(int, said.groups())
    assert ops == graphs == 496  # of 2 MB, 4,030 B each, beside the graph that was given


def test_who_is_ended_by_the_time_limit_is_named_with_its_ops(endless):
    over = TimeLimitExceeded(5.0)
    over.submitted = {"Forever": (1200, 12), "Rare": (3, 3)}
    told = error_with_cure(over, endless.scenario, ())
    assert str(told) == (
        "time limit: the time limit of 5 s was reached (Forever submitted 1,200 ops in 12 "
        "graphs so far); finished parts are kept, raise run.time_limit or shorten the run"
    )
    assert isinstance(told, TimeLimitExceeded)


def test_time_that_is_over_inside_a_process_ends_the_run_as_anywhere_else(endless):
    def late(sim):
        yield sim.submit(pause()).done
        raise TimeLimitExceeded(5.0)  # as the timer does, wherever it finds the run

    with pytest.raises(TimeLimitExceeded) as told:
        endless.simulation.run(None, late)
    assert told.value.submitted == {"late": (1, 1)}
