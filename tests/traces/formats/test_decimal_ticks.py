"""Decimal texts as exact integers, against Python's fractions."""

from fractions import Fraction

import numpy as np
import pytest
from foretrace.traces.formats.decimal_ticks import parse_micros
from hypothesis import given
from hypothesis import strategies as st

WHOLE = st.integers(0, 10**17).map(str)
DECIMALS = st.text("0123456789", min_size=1, max_size=9)
TEXTS = st.one_of(
    WHOLE,
    st.tuples(WHOLE, DECIMALS).map(".".join),
    st.tuples(WHOLE, DECIMALS).map(lambda t: f"-{t[0]}.{t[1]}"),
    st.tuples(st.integers(1, 999), st.integers(-9, 12)).map(lambda t: f"{t[0]}e{t[1]}"),
    WHOLE.map(lambda t: f'"{t}"'),
)


@given(st.lists(TEXTS, max_size=30))
def test_texts_keep_every_picosecond(texts):
    found = parse_micros([t.encode() for t in texts])
    exact = [round(Fraction(t.strip('"')) * 10**6) for t in texts]
    assert [
        w * 10**6 + p for w, p in zip(found.whole.tolist(), found.pico.tolist(), strict=True)
    ] == exact
    assert found.rounded == sum(
        e != Fraction(t.strip('"')) * 10**6 for e, t in zip(exact, texts, strict=True)
    )


def test_a_float_would_have_lost_the_nanoseconds():
    """The trap: at 1.7e15 µs a float64 is good to 0.25 µs only."""
    text = "1712170331000000.123"
    assert (float(text) % 1) * 1000 != 123
    found = parse_micros([text.encode()])
    assert found.whole.tolist() == [1712170331000000]
    assert found.pico.tolist() == [123000]


def test_digits_beyond_a_picosecond_are_rounded_half_to_even_and_counted():
    found = parse_micros([b"0.0000005", b"0.0000015", b"0.000001"])
    assert found.pico.tolist() == [0, 2, 1]
    assert found.rounded == 2


@pytest.mark.parametrize("text", [b"abc", b"", b"1.2.3", b"--1", b"NaN", b"Infinity", b"1e99999"])
def test_a_text_that_is_no_number_is_refused_with_its_row(text):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the arguments are checked below
        parse_micros([b"1", text])
    assert caught.value.args == (1, text.decode())


def test_parsing_no_texts_gives_no_times():
    assert parse_micros([]).whole.dtype == np.int64
    assert len(parse_micros([]).whole) == 0
