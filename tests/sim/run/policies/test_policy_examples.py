"""The documented compiled policy does what its twin does, and closed forms say what that is."""

import importlib.util
import sys
from pathlib import Path

import foretrace
import pytest
from foretrace import Component, Simulation, System
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.run.workload import WORKLOADS
from foretrace.sim.testing import check_same_run

PLUGINS = Path(foretrace.__file__).resolve().parent / "docs" / "examples" / "plugins"
LONGEST = 80


class PerToken(Backend):
    """A batch takes 2 ms, and 1 ms per token."""

    source = "the test"

    def timing(self, ops, now=0.0):
        return Timing.of(2e-3 + 1e-3 * ops.flop)


SYSTEM = System(
    (
        Component("node0.gpu0", "gpu", slots=1),
        Component("node0.kv", "kv", capacity=8, unit="block"),
    ),
    ("node0.gpu0",),
)
SIMULATION = Simulation(SYSTEM, {"*": PerToken()})


@pytest.fixture
def servers():
    """The workloads of both files; what they registered is removed after the test."""
    known, found = dict(WORKLOADS), []
    for name in ("batch_server", "batch_server_twin"):
        spec = importlib.util.spec_from_file_location(f"example_{name}", PLUGINS / f"{name}.py")
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found.append(module)
    yield found[0].BatchServer, found[1].BatchServerTwin
    WORKLOADS.clear()
    WORKLOADS.update(known)
    for name in ("batch_server", "batch_server_twin"):
        del sys.modules[f"example_{name}"]


@pytest.mark.parametrize("every", [0.0, 1e-3, 2e-3, 3.5e-3, 20e-3])
def test_the_batch_server_equals_its_twin(servers, every):
    tokens = [1 + k * 7 % 6 for k in range(40)]
    kernel, twin = (server(tokens=tokens, every=every) for server in servers)
    check_same_run(SIMULATION, kernel, twin)


def test_batches_take_what_the_cache_holds(servers):
    kernel, _ = servers
    found = SIMULATION.run(kernel(tokens=[4, 4, 5], every=0.0)).emitted.samples["latency"]
    # the first is alone, for nothing else has arrived; then one of 4, for 4 and 5 exceed 8
    assert found.tolist() == pytest.approx([6e-3, 12e-3, 19e-3], abs=1e-12)


def test_a_request_that_no_cache_holds_is_refused(servers):
    kernel, _ = servers
    with pytest.raises(foretrace.SimulationError, match=r"node0\.kv: "):
        SIMULATION.run(kernel(tokens=[9], every=0.0))


@pytest.mark.parametrize("name", ["batch_server.py", "batch_server_twin.py"])
def test_an_example_is_short(name):
    assert len((PLUGINS / name).read_text().splitlines()) <= LONGEST
