"""``metric.statistic op quantity``."""

import pytest
from foretrace.scenarios.config.condition import read_change_condition, read_condition
from foretrace.scenarios.config.metrics import METRICS, register_metric
from foretrace.sim.units import UNITS


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("iteration_time.p95 <= 37 s", ("iteration_time", "p95", "<=", 37.0, "s")),
        ("iteration_time.p99.9<37ms", ("iteration_time", "p99.9", "<", 0.037, "s")),
        ("gpu.power.bound <= 76 kW", ("gpu.power", "bound", "<=", 76e3, "W")),
        ("nic.utilization.p95 <= 90 %", ("nic.utilization", "p95", "<=", 0.9, "")),
        ("node0.nic3.utilization.max > 0.5", ("node0.nic3.utilization", "max", ">", 0.5, "")),
        ("cost_per_million_tokens < 0.6 USD", ("cost_per_million_tokens", "", "<", 0.6, "USD")),
        (
            "tokens_per_second.p50 >= 100 ktoken/s",
            ("tokens_per_second", "p50", ">=", 1e5, "token/s"),
        ),
    ],
)
def test_a_condition_is_read(text, parts):
    c = read_condition(text)
    assert (c.metric, c.statistic, c.op, c.limit, c.unit) == parts
    assert c.text == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "iteraton_time.p95 <= 3 s",
            "no metric named 'iteraton_time.p95'; did you mean 'iteration",
        ),
        ("iteration_time.q95 <= 3 s", "'iteration_time' has no statistic 'q95'; it has: p50, p95"),
        ("iteration_time <= 3 s", "'iteration_time' has many values; add a statistic, such as"),
        ("gpu.power.p50 <= 3 W", "'gpu.power' has no statistic 'p50'; it has: bound"),
        (
            "gpu.memory >= 40 GB",
            "'gpu.memory' is planned for release 0.3; see: foretrace explain metrics",
        ),
        ("gpu.memory.peak <= 76 GB", "'gpu.memory.peak' is planned for release 0.3"),
        (
            "makespan.p50 <= 3 s",
            "'makespan' has no statistic 'p50'; it has: none, since it is a single",
        ),
        ("gpu.power.bound <= 76 ms", "'76 ms' is not a power; write it like '700 W'"),
        ("gpu.power.bound <= 76", "'76' has no unit; write for example '76 W'"),
        (
            "iteration_time.p95 =< 3 s",
            "is not a condition; write it like 'iteration_time.p95 <= 37 s'",
        ),
        ("iteration_time.p95 <=", "is not a condition; write it like"),
        ("__import__('os').system('x') < 1", "is not a condition; write it like"),
        ("", "is not a condition; write it like"),
    ],
)
def test_what_is_no_condition_is_refused_with_the_cure(text, said):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the text is compared
        read_condition(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("op", "below", "equal", "above"),
    [
        ("<=", True, True, False),
        ("<", True, False, False),
        (">=", False, True, True),
        (">", False, False, True),
        ("==", False, True, False),
    ],
)
def test_a_condition_holds_or_not(op, below, equal, above):
    c = read_condition(f"iteration_time.p50 {op} 2 s")
    assert [c.holds(v) for v in (1.0, 2.0, 3.0)] == [below, equal, above]
    assert not c.holds(float("nan"))


def test_a_change_is_a_ratio_whatever_the_metric():
    c = read_change_condition("iteration_time.p50 > +3 %")
    assert (c.name, c.op, c.limit, c.relative) == ("iteration_time.p50", ">", 0.03, True)
    assert read_change_condition("iteration_time.p50 < -3 %").limit == -0.03


def test_a_metric_has_one_definition():
    with pytest.raises(ValueError, match="two metrics are named 'makespan'"):
        register_metric("makespan", "s", "Something else.")
    assert all(m.unit in UNITS for m in METRICS.values())
    assert all(m.definition.endswith(".") for m in METRICS.values())
