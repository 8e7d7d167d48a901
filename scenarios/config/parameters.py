"""Values of one setting in ``sweep.vary``: a list, or a range."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field

from .schema import REQUIRED, Section, validation_error

NUMBER = re.compile(r"\s*([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*(\D.*?)?\s*")
DIGITS = 6  # significant digits of a value that is drawn or spaced
MOST = 10_000  # values of one setting
Scalar = str | int | float


@dataclass(frozen=True)
class Amount:
    """A number and its unit, as written.

    Parameters
    ----------
    number : the exact number
    unit : unit as written; "" for none
    text : True if it is text in the file, False for a bare number
    """

    number: Decimal
    unit: str = ""
    text: bool = False

    def with_number(self, number: Decimal) -> Scalar:
        """Copy with another number, in the same unit and notation.

        >>> parse_amount("100 Gb/s").with_number(Decimal("250"))
        '250 Gb/s'
        >>> parse_amount(8).with_number(Decimal(16))
        16
        """
        whole = number == number.to_integral_value()
        if not self.text:
            return int(number) if whole else float(number)
        shown = f"{int(number)}" if whole else f"{number.normalize():f}"
        return f"{shown} {self.unit}".rstrip()


def parse_amount(written: object) -> Amount:
    """Parse a number with an optional unit.

    Raises
    ------
    ValueError
        The value is not a number.
    """
    if isinstance(written, int | float) and not isinstance(written, bool):
        if math.isfinite(written):
            return Amount(Decimal(str(written)))
    elif isinstance(written, str) and (found := NUMBER.fullmatch(written)):
        return Amount(Decimal(found[1]), found[2] or "", text=True)
    raise ValueError(f"'{written}' is not a number; write it like 8 or '100 Gb/s'")


@dataclass(frozen=True)
class Values:
    """Discrete values of a varied setting.

    Parameters
    ----------
    values : the values in the form of a scenario file
    ordered : True if neighbours in the list are similar, as for ascending numbers
    """

    values: tuple[Any, ...]
    ordered: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Values by their position, ``{"0": ..., "1": ...}``, for tables."""
        return {str(i): v for i, v in enumerate(self.values)}

    def value_at(self, fraction: float) -> Any:
        """Value at a fraction of the list, from 0 to below 1.

        >>> Values((1, 2, 4)).value_at(0.5)
        2
        """
        return self.values[min(int(fraction * len(self.values)), len(self.values) - 1)]


@dataclass(frozen=True)
class Range:
    """Continuous range of a varied setting, both ends included.

    Parameters
    ----------
    low, high : ends of the range
    log : True for a logarithmic scale
    """

    low: Amount
    high: Amount
    log: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary with ``from``, ``to`` and, if logarithmic, ``log``, for tables."""
        ends = {
            "from": self.low.with_number(self.low.number),
            "to": self.high.with_number(self.high.number),
        }
        return {**ends, "log": True} if self.log else ends

    def value_at(self, fraction: float) -> Scalar:
        """Value at a fraction of the range, from 0 to 1.

        >>> Range(parse_amount("1 us"), parse_amount("100 us"), log=True).value_at(0.5)
        '10 us'
        """
        low, high = float(self.low.number), float(self.high.number)
        found = low * (high / low) ** fraction if self.log else low + (high - low) * fraction
        return self.low.with_number(Decimal(f"{min(max(found, low), high):.{DIGITS}g}"))


Vary = Values | Range


class RangeSection(Section):
    """A range of values of a setting."""

    from_: Annotated[str | int | float, Field(alias="from")] = REQUIRED
    """The first value."""
    to: str | int | float = REQUIRED
    """The last value."""
    step: str | int | float | None = None
    """Distance from one value to the next."""
    log: Annotated[int, Field(ge=2, le=MOST)] | Literal[True] | None = None
    """Number of values, spaced by equal factors; true: any value, drawn on a logarithmic scale."""


def read_vary(data: Any, context: Any = None) -> Vary:
    """Read the values of one setting: a list, or ``{from, to, step | log}``.

    Parameters
    ----------
    data : value in the file
    context : validation context that collects the known keys for messages
    """
    if isinstance(data, list | tuple):
        return _read_list(data)
    if not isinstance(data, dict):
        message = f"'{data}' is not a list of values; write it like [1, 2, 4] or {{from: 1, to: 4}}"
        raise validation_error("vary", message, value=data)
    model = RangeSection.model_validate(data, context=context)
    low, high = _read_end("from", model.from_), _read_end("to", model.to)
    if low.unit != high.unit:
        message = f"'{model.to}' and '{model.from_}' have different units; write both in one unit"
        raise validation_error("vary", message, "to", model.to)
    if low.number >= high.number:
        raise validation_error(
            "vary",
            f"'{model.to}' is not above '{model.from_}'; write the larger value under 'to'",
            "to",
            model.to,
        )
    if model.log is not None:
        return _values_by_factor(low, high, model)
    return Range(low, high) if model.step is None else _values_by_step(low, high, model)


def _read_list(data: Any) -> Values:
    if not data:
        raise validation_error(
            "vary", "the list of values is empty; write at least one", value=data
        )
    if len({repr(v) for v in data}) < len(data):
        twice = next(v for i, v in enumerate(data) if v in data[:i])
        raise validation_error(
            "vary", f"'{twice}' is in the list twice; keep one of them", value=data
        )
    return Values(tuple(data), _is_ascending(data))


def _is_ascending(values: Any) -> bool:
    """True if the values are ascending numbers in one unit."""
    try:
        read = [parse_amount(v) for v in values]
    except ValueError:
        return False
    rising = all(a.number < b.number for a, b in pairwise(read))
    return rising and len({a.unit for a in read}) == 1


def _read_end(key: str, written: object) -> Amount:
    try:
        return parse_amount(written)
    except ValueError as error:
        raise validation_error("vary", str(error), key, written) from error


def _values_by_step(low: Amount, high: Amount, model: RangeSection) -> Values:
    step = _read_end("step", model.step)
    if step.unit != low.unit or step.number <= 0:
        message = f"step '{model.step}' does not fit '{model.from_}'; write one above 0 in its unit"
        raise validation_error("vary", message, "step", model.step)
    count = (high.number - low.number) / step.number
    if count != count.to_integral_value():
        last = low.with_number(low.number + int(count) * step.number)
        message = f"steps of '{model.step}' do not reach '{model.to}'; write to: '{last}'"
        raise validation_error("vary", message, "step", model.step)
    if count >= MOST:
        message = f"{int(count) + 1} values are too many; write a step that gives at most {MOST}"
        raise validation_error("vary", message, "step", model.step)
    numbers = (low.number + i * step.number for i in range(int(count) + 1))
    return Values(tuple(low.with_number(n) for n in numbers), ordered=True)


def _values_by_factor(low: Amount, high: Amount, model: RangeSection) -> Vary:
    if model.step is not None:
        raise validation_error(
            "vary", "'step' and 'log' exclude each other; keep one", "log", model.log
        )
    if low.number <= 0:
        raise validation_error(
            "vary",
            f"'{model.from_}' is not above 0; write a positive value for 'log'",
            "from",
            model.from_,
        )
    whole = Range(low, high, log=True)
    if model.log is True:
        return whole
    count = int(model.log or 0)
    found = tuple(dict.fromkeys(whole.value_at(i / (count - 1)) for i in range(count)))
    return Values(found, ordered=True)
