"""Simulation by offline profiling (arXiv:2002.06790): its wire, and plans ranked."""

import pytest
from foretrace.calibration.judge import profile, strategies
from foretrace.calibration.local import two_from_one as two
from foretrace.calibration.rows.sailor_rows import plans
from foretrace.scenarios.config.loader import load

WIRES = {"base": "all_reduce-2gbit.csv", "gpt": "all_reduce.csv"}


@pytest.fixture(scope="module")
def variants():
    scenario = load("foretrace:offline-profiling", set=["run.quick=true"])
    return {one.variant: one for one in scenario.variants()}


def wire(variant):
    """Rate of the wire, B/s, and the settings of the library."""
    cluster = variant.section("cluster")
    (link,) = cluster.node.links
    return link.link.settings["bandwidth"], cluster.fabric.library.settings


@pytest.mark.parametrize("name", WIRES)
def test_messages_take_what_they_took_alone_on_that_wire(variants, name):
    rate, library = wire(variants[name])
    alone, core = two.line(WIRES[name]), two.core(WIRES[name])
    assert (two.STEPS * library["simple"]["step"], rate) == pytest.approx(alone, rel=0.01)
    assert two.STEPS * library["cores"]["step"] == pytest.approx(core[0], rel=0.01)
    assert library["cores"]["rate"] == pytest.approx(core[1], rel=0.01)


def test_plans_of_one_machine_are_ranked_and_nearer_by_their_schedule_than_by_a_sum_of_ops(
    data, monkeypatch, tmp_path
):
    if not (data / "sailor-training").exists():
        pytest.skip(f"NOT THERE: no measured plans at {data}; set FORETRACE_DATA")
    monkeypatch.setenv("FORETRACE_DATA", str(data))
    known = {plan.name: plan for plan in plans()}
    judged = []
    for name in ("N8_D2", "N8_D4"):
        plan = known[name]
        said = strategies.seconds(profile.scenario(plan, tmp_path))
        judged.append(strategies.Judged(name, (plan.nodes, plan.batch), plan.seconds, said))
    assert strategies.inverted(judged, 0) == (0, 1)
    for plan in judged:
        replayed, summed, _ = (abs(s / plan.measured - 1) for s in plan.predicted)
        assert replayed < 0.15 < summed
