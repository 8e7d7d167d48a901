"""A run that cannot go on names the setting that it is stuck on, its place, and a cure."""

import re

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.variants.variants import build_variant
from foretrace.sim.errors import SimulationError

TEXT = """\
foretrace: 1
name: stuck
workload: {type: transfers, ops: [{op: "send:write", bytes: 1 MiB, from: [0], to: 1, count: 3}]}
cluster:
  nodes: 3
  node: {gpu: {streams: 1}, host: {cores: 1}, nic: {bandwidth: 25 GB/s, latency: 1 us}}
"""
COMPUTE = """\
foretrace: 1
name: stuck
extends: foretrace:first
what_if: []
workload: {scale_to: {parallel: {data: 2}}}
"""


def stuck(text: str) -> str:
    with pytest.raises(SimulationError) as told:
        build_variant(loads(text, file="s.yaml")).run()
    return str(told.value)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (
            "processes: [{use: degrade, component: node0.nic0.tx, at: 9 us, slowdown: 1.0e+30}]",
            "starvation: op 0 runs at rate 0 on node0.nic0.tx, node1.nic0.rx; degrade has "
            "node0.nic0.tx (processes.0, s.yaml:7:19): write how long it 'lasts', or lower its "
            "'slowdown'",
        ),
        (
            "processes: [{use: fail, component: node1.nic0.rx, at: 9 us}]",
            "lost: op 0 was stopped by the failure of node1.nic0.rx; fail has node1.nic0.rx "
            "(processes.0, s.yaml:7:19): remove it, or use a slowdown instead",
        ),
        (
            "  override: {node0.nic*: {down: true}}",
            "starvation: op 0 runs at rate 0 on node0.nic0.tx, node1.nic0.rx; node0.nic0.tx is "
            "down (cluster.override.node0.nic*, s.yaml:7:33): remove it, or use a slowdown "
            "instead",
        ),
        (
            "  override: {node0.nic0.tx: {slowdown: 1.0e+40}}",
            "starvation: op 0 runs at rate 0 on node0.nic0.tx, node1.nic0.rx; node0.nic0.tx is "
            "slowed down (cluster.override.node0.nic0.tx, s.yaml:7:40): lower its 'slowdown'",
        ),
    ],
)
def test_transfers_that_never_end_name_what_holds_them(written, said):
    assert stuck(TEXT + written + "\n") == said


@pytest.mark.parametrize(
    ("written", "cure"),
    [
        (
            "cluster: {override: {node0.gpu0: {down: true}}}",
            r"which failed; node0\.gpu0 is down \(cluster\.override\.node0\.gpu0, "
            r"s\.yaml:6:.*\): add a hot-spare under processes, or remove it$",
        ),
        (
            "processes:\n  - {use: fail, component: node0.gpu0, at: 0 s}\n"
            "  - {use: hot-spare, spares: [], period: 1 s, swap: 1 s}",
            r"; fail has node0\.gpu0 \(processes\.0, s\.yaml:7:11\): add a component to the "
            r"'spares' of hot-spare, or remove it$",
        ),
    ],
)
def test_work_of_a_dead_gpu_asks_for_a_spare(written, cure):
    assert re.search(cure, stuck(COMPUTE + written + "\n"))


def test_a_time_beyond_the_range_is_no_matter_of_ticks():
    slow = TEXT.replace("25 GB/s", "1.0e-9 B/s")
    assert stuck(slow) == (
        "time overflow: op 0 would end beyond the 107 days that a run may last; raise the "
        "rates, or shorten the times"
    )
