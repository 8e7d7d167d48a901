"""Text with a unit at the border, SI floats inside."""

import subprocess
import sys
from contextlib import suppress
from fractions import Fraction

import pytest
from foretrace.sim.units import COMMON, UNITS, _unit_factor, _unit_factor_by_pint, quantity
from hypothesis import given
from hypothesis import strategies as st

READ = [
    ("200 Gb/s", "B/s", 25e9),
    ("200Gbps", "B/s", 25e9),
    ("200 Gbit/s", "B/s", 25e9),
    ("25 GB/s", "B/s", 25e9),
    ("25 GBps", "B/s", 25e9),
    ("80 GB", "B", 80e9),
    ("80 GiB", "B", 80 * 2**30),
    ("8 b", "B", 1.0),
    ("1_000 B", "B", 1000.0),
    ("5 us", "s", 5e-6),
    ("5 µs", "s", 5e-6),  # U+00B5
    ("5 μs", "s", 5e-6),  # U+03BC
    ("2.1 us", "s", 2.1e-6),
    ("2 hours", "s", 7200.0),
    ("10 min", "s", 600.0),
    ("989 TFLOP/s", "flop/s", 989e12),
    ("989 Tflop/s", "flop/s", 989e12),
    ("989 TFLOPS", "flop/s", 989e12),
    ("2.5 USD/hour", "USD/s", 2.5 / 3600),
    ("700 W", "W", 700.0),
    ("1 kWh", "J", 3.6e6),
    ("3.2 GHz", "1/s", 3.2e9),
    ("120 ktoken/s", "token/s", 120e3),
    ("90 %", "", 0.9),
    ("+3 %", "", 0.03),
    ("0.8", "", 0.8),
    (0.8, "", 0.8),
    (0, "B", 0.0),
    ("0", "s", 0.0),
]
REFUSED = [
    ("450 GB", "B/s", "'450 GB' is not a rate of data; write it like '400 Gb/s'"),
    ("76 ms", "B", "'76 ms' is not an amount of data; write it like '76 GB'"),
    ("64 GT/s", "B/s", "'64 GT/s' is not a rate of data; write it like '400 Gb/s'"),
    ("200 Gb/s/s", "B/s", "'200 Gb/s/s' is not a rate of data; write it like '400 Gb/s'"),
    ("80 gb", "B", "'gb' in '80 gb' is not a unit; did you mean 'GB'?"),
    ("10k", "B", "'k' in '10k' is not a unit; did you mean 'kB'?"),
    ("200 G", "B/s", "'G' in '200 G' is not a unit; did you mean 'Gb/s'?"),
    ("5 GBs", "B/s", "'GBs' in '5 GBs' is not a unit; did you mean 'GB/s'?"),
    ("5 furlong", "s", "'furlong' in '5 furlong' is not a unit; write it like '30 s'"),
    (5, "B", "'5' has no unit; write for example '5 GB'"),
    ("756", "flop/s", "'756' has no unit; write for example '756 Tflop/s'"),
    ("1,000 GB", "B", "'1,000 GB' is not an amount of data; write it like '76 GB'"),
    ("fast", "B/s", "'fast' is not a rate of data; write it like '400 Gb/s'"),
    ("inf s", "s", "'inf s' is not a time; write it like '30 s'"),
    (float("nan"), "s", "'nan' is not a time; write it like '30 s'"),
    (float("inf"), "", "'inf' is not a ratio; write it like '0.8'"),
    (True, "s", "'True' is not a time; write it like '30 s'"),
    (["5 s"], "s", "'['5 s']' is not a time; write it like '30 s'"),
    (None, "s", "'None' is not a time; write it like '30 s'"),
    ("1e400 s", "s", "'1e400 s' is too large for any quantity; write a smaller number"),
    ("5 GB**99999", "B", "'5 GB**99999' is not an amount of data; write it like '76 GB'"),
    ("5 __import__('os')", "s", "'5 __import__('os')' is not a time; write it like '30 s'"),
]


@pytest.mark.parametrize(("text", "unit", "value"), READ, ids=lambda v: str(v))
def test_text_with_a_unit_is_an_si_float(text, unit, value):
    assert quantity(text, unit) == value


@pytest.mark.parametrize(("text", "unit", "said"), REFUSED, ids=lambda v: str(v))
def test_an_invalid_quantity_is_refused_with_an_example(text, unit, said):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the whole text is compared
        quantity(text, unit)
    assert str(caught.value) == said


@given(st.decimals(0, 10**6, allow_nan=False, allow_infinity=False, places=3))
def test_reading_rounds_once(number):
    assert quantity(f"{number} us", "s") == float(Fraction(number) / 10**6)
    assert quantity(f"{number} Gb/s", "B/s") == float(Fraction(number) * 10**9 / 8)


@given(st.floats(0, 1e300), st.sampled_from(sorted(UNITS)))
def test_a_value_written_in_si_is_read_back_exactly(value, unit):
    assert quantity(f"{value!r} {unit}", unit) == value


@given(st.text(max_size=30), st.sampled_from(sorted(UNITS)))
def test_any_text_is_a_number_or_a_value_error(text, unit):
    with suppress(ValueError):
        assert isinstance(quantity(text, unit), float)


def test_every_unit_reads_its_own_example():
    for name, unit in UNITS.items():
        assert quantity(unit.example, name) > 0


@pytest.mark.parametrize(
    ("name", "unit"), [(name, unit) for unit, names in COMMON.items() for name in names]
)
def test_a_common_unit_is_worth_exactly_what_pint_says(name, unit):
    assert _unit_factor(name, unit) == _unit_factor_by_pint(name, unit)


def test_units_cost_no_import_until_an_uncommon_one_is_read():
    program = (
        "import sys\n"
        "from foretrace.sim.units import quantity\n"
        "quantity('400 Gb/s', 'B/s'), quantity('80 GiB', 'B'), quantity('2.1 us', 's')\n"
        "assert not {'pint', 'pydantic'} & set(sys.modules)\n"
        "quantity('1 kWh', 'J')\n"
        "assert 'pint' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
