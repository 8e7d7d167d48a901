"""Two processes predicted from a recording of one, blind: beside local + all-reduce."""

import numpy as np
import pytest
from by_day import every
from foretrace.calibration.local import two_from_one
from foretrace.scenarios.workloads.trace_files import open_trace
from foretrace.sim.facts.ops import Kind


@pytest.fixture(scope="module")
def script():
    return two_from_one


def sitting(script, name, once):
    """The variant, where its starts of that sitting are bundled."""
    variant = script.VARIANTS[name]
    for configuration in (variant.one, variant.two):
        if not script.starts(configuration, once):
            pytest.skip(f"NOT BUNDLED: starts of {configuration} that were scored once")
    return variant


NIGHTLY = pytest.param("resnet50", marks=pytest.mark.nightly)  # as the others, and slow
ALL = [NIGHTLY, "gpt", "comm-heavy", "comm-heavy, loopback", "overlapped"]


@pytest.mark.parametrize("name", every(2, ALL[1:]) + ALL[:1])
def test_the_model_errs_less_than_a_sum_on_starts_that_were_scored_once(script, name):
    """Blind, in at least 90 % of the draws of the starts."""
    variant = sitting(script, name, once=True)
    steps = script.modelled(variant, True), script.summed(variant, True)
    model, summed = (step / script.truth(variant, True) - 1 for step in steps)
    assert abs(model) < 0.08
    assert abs(model) < 0.8 * abs(summed)
    errors = [abs(script.errors(variant, True, step)) for step in steps]
    assert (errors[0] < errors[1]).mean() > 0.9


def test_on_a_slow_wire_the_interval_is_another_than_that_of_a_sum(script):
    variant = sitting(script, "comm-heavy", once=True)
    intervals = [
        script.interval(variant, True, how(variant, True))
        for how in (script.modelled, script.summed)
    ]
    assert max(map(abs, intervals[0])) < min(map(abs, intervals[1]))


@pytest.mark.nightly
def test_a_memory_in_common_only_ever_costs_time(script):
    variant = script.VARIANTS["gpt"]
    apart, together = (script.predicted(variant, True, shared) for shared in (False, True))
    assert apart <= together < 1.02 * apart


@pytest.mark.parametrize(("name", "recorded"), [("gpt", "ddp-gpt"), ("resnet50", "ddp-resnet50")])
def test_buckets_are_those_that_ddp_made(script, name, recorded):
    """The sizes of the recorded all-reduces of two processes, which no prediction has seen."""
    ops = open_trace(f"foretrace:{recorded}").graph().ops
    rows = np.flatnonzero((ops.kind == Kind.COLLECTIVE) & (ops.period == ops.period[0]))
    reduced = [r for r in rows.tolist() if "all-reduce" in str(ops.signature_text(r))]
    assert sorted(script.bucket_sizes(script.VARIANTS[name])) == sorted(ops.bytes[reduced].tolist())


@pytest.mark.parametrize("table", ["all_reduce.csv", "all_reduce-2gbit.csv"])
@pytest.mark.parametrize("size", [1 << 20, 1 << 22, 1 << 24])
def test_beside_a_busy_core_an_all_reduce_takes_as_much_longer_as_it_takes_of_it(
    script, table, size
):
    """The law that the model has, in what was measured; and the thread gets the rest."""
    found = {}
    for row in script.rows(script.DATA / table.replace("reduce", "reduce-beside")):
        if int(row["bytes"]) == size and row["threads"] == "1":
            found.setdefault(row["busy"], []).append(
                [int(row[k]) for k in ("duration_ns", "cpu_ns", "loop_ns")]
            )
    alone, beside = (np.mean(found[busy], axis=0) for busy in "01")
    assert beside[0] == pytest.approx(alone[0] + beside[1], rel=0.15)
    assert beside[1] + beside[2] == pytest.approx(beside[0], rel=0.05)


def test_the_all_reduces_of_a_step_are_those_of_its_buckets(script):
    assert script.all_reduces(script.VARIANTS["gpt"]) == pytest.approx(0.018, rel=0.1)
    slow = script.all_reduces(script.VARIANTS["comm-heavy"])
    assert slow == pytest.approx(4 * 4_224_512 / 0.125e9, rel=0.1)  # both ways at 2 Gbit/s


def test_coverage_is_judged_by_the_rule_for_intervals_and_called_unresolved(script):
    page = [(5, 4), (5, 4), (3, 3), (3, 3), (3, 0)]  # 14 of 19, as docs/accuracy.md has it
    found = script.judged([{"starts": n, "starts_held": k} for n, k in page])
    assert (found["held"], found["starts"], found["state"]) == (14, 19, "unresolved")
    assert script.judged([{"starts": 20, "starts_held": 18}])["state"] == "held"
