"""gloo in a scenario: as the lab's benchmark has it, with the constant of the catalog."""

import pytest
from foretrace.calibration.judge import lab_gloo as lab
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.variants.variants import build_variant

SCENARIO = """
foretrace: 1
name: gloo
workload:
  type: transfers
  ops:
    - {{op: "collective:all-reduce", bytes: {size} B, from: {ranks}, {times}}}
cluster:
  nodes: {n}
  node: {{gpu: {{count: 1, streams: 1}}, nic: lab-port}}
  fabric: {{switch: lab-port, library: {library}}}
backends: {backends}
"""


def told(n, size, *, library="gloo-lab", backends="{}", count=1, ranks=None):
    return SCENARIO.format(
        n=n, size=size, library=library, backends=backends,
        times=f"count: {count}, at_once: {count}", ranks=list(range(n)) if ranks is None else ranks,
    )  # fmt: skip


def seconds(*args, **kw):
    return build_variant(loads(told(*args, **kw))).run().makespan


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_scenario_predicts_what_the_benchmark_does(ranks):
    """All-reduces alone that all ranks call at once, with the constant of the catalog."""
    message = lab.message_of()
    known = {lab.op_of(s).size for (s, _) in lab.measured(lab.bundled_recording(lab.name_of(ranks)))
             if not lab.op_of(s).buckets}  # fmt: skip
    assert len(known) >= 2
    for size in known:
        op = lab.Op("all-reduce", size)
        expected = lab.messages(op, lab.at_once(ranks, op), message)
        assert seconds(ranks, size) == pytest.approx(expected, rel=1e-9)


def test_the_catalog_has_the_constant_that_two_ranks_tell():
    made = build_variant(loads(told(2, 1 << 20)))
    assert made.simulation.backends["fabric"].message == pytest.approx(lab.message_of())
