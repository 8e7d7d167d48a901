"""A glob under ``cluster.override`` means what it means under ``backends``: no part of a part."""

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.building.system import (
    build_backends,
    build_system,
    components_down_at_start,
)
from foretrace.sim.errors import ScenarioError
from foretrace.sim.rerun.sensitivity import ScaledBackend

TEXT = """\
foretrace: 1
name: t
workload: {trace: foretrace:gpt, recorded_on: {device: epyc-zen4-core}}
cluster:
  nodes: 2
  node:
    gpu: {model: epyc-zen4-core, count: 1, copy_engines: 1}
    host: epyc-zen4-vm
    memory: epyc-zen4-vm
    nic: {model: loopback-tcp, bandwidth: 10 Gb/s}
    links: [{from: gpu, to: nic, via: pcie5-x16}]
  fabric: {library: gloo}
  override: {GLOB: {WHAT}}
"""


def slowed(glob, what="slowdown: 2"):
    """Names of what is slower, or out of order."""
    text = TEXT.replace("GLOB", glob).replace("WHAT", what)
    scenario = loads(text)
    plain = build_system(loads(text.replace("{" + what + "}", "{slowdown: 1}")))
    made = build_system(scenario)
    bound = build_backends(scenario, made)
    rates = {c.name for c in made.components if c.rate != plain[c.name].rate}
    slots = {name for name, backend in bound.items() if isinstance(backend, ScaledBackend)}
    return rates | slots | set(components_down_at_start(scenario, made))


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("node1.gpu*", {"node1.gpu0"}),
        ("node1.gpu0", {"node1.gpu0"}),
        ("node*.gpu*.dma", {"node0.gpu0.dma", "node1.gpu0.dma"}),
        ("node1.gpu*.hbm", {"node1.gpu0.hbm"}),
        ("node1.nic*", {"node1.nic0.tx", "node1.nic0.rx"}),
        ("fabric", {"fabric"}),
    ],
)
def test_what_a_glob_means(glob, names):
    assert slowed(glob) == names
    if glob != "fabric":
        assert slowed(glob, "down: true") == names


def test_a_name_without_a_dot_is_of_all_below():
    found = slowed("node1*")
    assert {"node1.gpu0", "node1.gpu0.dma", "node1.gpu0.hbm", "node1.host", "node1.nic0.tx",
            "node1.gpu0.to_nic", "node1.dram"} <= found  # fmt: skip
    assert not any(name.startswith("node0") for name in found)


def test_the_name_of_a_machine_is_all_that_is_in_it_and_in_no_other():
    """``node1*`` is ``node10`` too."""
    assert slowed("node1") == slowed("node1*")


def test_what_nothing_crosses_cannot_be_down():
    with pytest.raises(ScenarioError, match="'fabric' cannot be down, since no data crosses it"):
        slowed("fabric", "down: true")
