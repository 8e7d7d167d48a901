"""Formatting of numbers for people."""

import math

import pytest
from foretrace.reports.numbers import (
    format_change,
    format_half_width,
    format_quantity,
    three_digits,
)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "s", "0 s"),
        (1.0, "s", "1 s"),
        (0.17870242, "s", "179 ms"),
        (0.9999, "s", "1 s"),
        (1e-9, "s", "1 ns"),
        (2.5e-12, "s", "2.5 ps"),
        (599.0, "s", "599 s"),
        (7300.0, "s", "122 min"),
        (25e9, "B/s", "25 GB/s"),
        (80e9, "B", "80 GB"),
        (989e12, "flop/s", "989 Tflop/s"),
        (0.309, "", "30.9 %"),
        (1.3e-15, "", "0 %"),
        (-0.02, "s", "-20 ms"),
        (None, "s", "unknown"),
        (math.nan, "s", "unknown"),
        (math.inf, "B", "unknown"),
    ],
)
def test_a_value_has_three_digits_a_prefix_and_its_unit(value, unit, text):
    assert format_quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (9.999, "10"), (99.96, "100"), (0.01234, "0.0123"), (-5.0, "-5")],
)
def test_digits_are_significant(value, text):
    assert three_digits(value) == text


def test_a_change_has_its_sign():
    assert [format_change(r) for r in (-0.024, 0.03, 0.0004, -0.0004)] == [
        "-2.4 %", "+3.0 %", "no change", "no change"
    ]  # fmt: skip


def test_half_an_interval_is_a_share_of_the_value():
    assert format_half_width(10.0, (9.0, 11.0)) == "±10 %"
    assert format_half_width(10.0, None) == ""
    assert format_half_width(0.0, (0.0, 1.0)) == ""


def test_an_interval_wider_than_its_value_says_how_many_times_its_ends_are():
    assert format_half_width(0.104, (0.0583, 19.5)) == "0.561 to 188 times that"
    assert format_half_width(1.0, (0.0, 2.0)) == "±100 %"
    assert format_half_width(1.0, (-1.5, 2.0)) == "±175 %"


def test_a_large_change_is_a_multiple_not_a_percentage():
    assert format_change(24.63) == "25.6 times as much"
    assert format_change(9.99) == "+999.0 %"
