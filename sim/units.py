"""Units: SI floats inside, text with a unit at every border, integer ticks in the engines.

A name in code has no unit suffix when its value is SI. The type aliases below state the unit of
a parameter; the scenario loader reads them to check what a user wrote. Two aliases may have one
unit and differ in the example that error messages show: a latency in us, a time limit in s.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .argument import as_float, shown
from .errors import RangeError


@dataclass(frozen=True)
class Unit:
    """SI unit of an annotated float, with an example value and a name for error messages.

    If ``positive`` is true, zero is refused too, as for a rate at which nothing would ever end.

    As part of a type annotation, it makes pydantic parse text with a unit.
    """

    text: str
    example: str
    what: str
    positive: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self._read_quantity, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": ["string", "number"], "examples": [self.example]}

    def _read_quantity(self, written: object) -> float:
        value = quantity(written, self)
        if value < 0:
            raise ValueError(f"'{written}' is negative; write it like '{self.example}'")
        if self.positive and not value:
            raise ValueError(f"'{written}' is zero; write a rate above 0, like '{self.example}'")
        return value


Seconds = Annotated[float, Unit("s", "2.1 us", "a time")]
Duration = Annotated[float, Unit("s", "30 s", "a time")]
Bytes = Annotated[float, Unit("B", "76 GB", "an amount of data")]
Chunk = Annotated[float, Unit("B", "25 MiB", "an amount of data")]
Packet = Annotated[float, Unit("B", "4096 B", "an amount of data")]
ByteRate = Annotated[float, Unit("B/s", "400 Gb/s", "a rate of data", True)]
MemoryRate = Annotated[float, Unit("B/s", "450 GB/s", "a rate of data", True)]
Flop = Annotated[float, Unit("flop", "2 Gflop", "an amount of arithmetic")]
FlopRate = Annotated[float, Unit("flop/s", "989 Tflop/s", "a rate of arithmetic", True)]
Hertz = Annotated[float, Unit("1/s", "3.2 GHz", "a frequency")]
Watts = Annotated[float, Unit("W", "700 W", "a power")]
Joules = Annotated[float, Unit("J", "1.2 kWh", "an energy")]
Money = Annotated[float, Unit("USD", "30000 USD", "an amount of money")]
MoneyRate = Annotated[float, Unit("USD/s", "2.10 USD/hour", "a price per time")]
TokenRate = Annotated[float, Unit("token/s", "120 ktoken/s", "a rate of tokens")]
Ratio = Annotated[float, Unit("", "0.8", "a ratio")]
Count = Annotated[float, Unit("1", "12", "a number")]

ALIASES = (
    *(Duration, Bytes, ByteRate, Flop, FlopRate, Hertz, Watts, Joules),
    *(Money, MoneyRate, TokenRate, Ratio, Count),
)
UNITS: dict[str, Unit] = {unit.text: unit for unit in (get_args(a)[1] for a in ALIASES)}
"""By SI text: what is known of a quantity whose setting is not."""

PICOSECOND = FINEST = 1e-12
NANOSECOND = 1e-9
MAX_TICK = 2**63 - 1


def ticks_per_second(tick: Seconds = PICOSECOND) -> int:
    """Number of simulation ticks in a second.

    Raises
    ------
    ValueError
        The tick is not one second divided by a whole number, or is shorter than 1 ps.

    Examples
    --------
    >>> ticks_per_second(1e-9)
    1000000000
    """
    length = as_float(tick) or 0.0
    whole = round(1 / length) if FINEST <= length <= 1 else 0
    if not whole or abs(whole * length - 1) > 1e-9:
        raise ValueError(
            f"tick is {shown(tick)} s; give 1 s divided by a whole number, 1e-12 s or more: 1e-12, "
            f"1e-9, 1e-6"
        )
    return whole


@overload
def ticks(seconds: float, tick: Seconds = ...) -> int: ...
@overload
def ticks(seconds: NDArray[np.float64], tick: Seconds = ...) -> NDArray[np.int64]: ...
def ticks(seconds: ArrayLike, tick: Seconds = PICOSECOND) -> int | NDArray[np.int64]:
    """Convert times in s to integer ticks, rounded half to even; time is rounded only here.

    Whole nanoseconds that were converted to float seconds convert back exactly, up to 1,000 s.

    Raises
    ------
    RangeError
        A time that is not a number, or beyond the range of int64 ticks.

    Examples
    --------
    >>> ticks(1.5e-12), ticks(2.5e-12), ticks(1e-9)
    (2, 2, 1000)
    >>> ticks(np.array([0.0, 1e-6])).tolist()
    [0, 1000000]
    """
    with np.errstate(over="ignore"):  # an infinite number of ticks is refused below
        scaled = np.rint(np.asarray(seconds, np.float64) * ticks_per_second(tick))
    if not np.all(np.abs(scaled) < 2.0**63):
        bad = np.asarray(seconds, np.float64)[~(np.abs(scaled) < 2.0**63)].flat[0]
        raise RangeError(
            f"{bad:g} s is outside the {2**63 * tick / 86400:.4g} days that ticks of {tick:g} s "
            "hold; use a coarser tick"
        )
    whole = scaled.astype(np.int64)
    return whole if whole.ndim else int(whole)


def seconds(ticks: ArrayLike, tick: Seconds = PICOSECOND) -> NDArray[np.float64]:
    """Convert ticks to seconds, as floats.

    >>> float(seconds(1_500_000))
    1.5e-06
    """
    return np.asarray(np.asarray(ticks, np.float64) / ticks_per_second(tick))


DEFINITIONS = """
kilo- = 1e3 = k-
mega- = 1e6 = M-
giga- = 1e9 = G-
tera- = 1e12 = T-
peta- = 1e15 = P-
exa- = 1e18 = E-
milli- = 1e-3 = m-
micro- = 1e-6 = µ- = μ- = u-
nano- = 1e-9 = n-
pico- = 1e-12 = p-
kibi- = 2**10 = Ki-
mebi- = 2**20 = Mi-
gibi- = 2**30 = Gi-
tebi- = 2**40 = Ti-
bit = [data] = b
byte = 8*bit = B
second = [time] = s = sec
minute = 60*second = min
hour = 60*minute = h
day = 24*hour = d
bps = bit/second
Bps = byte/second
hertz = 1/second = Hz
percent = 0.01
flop = [operation] = FLOP = Flop
FLOPS = flop/second = Flops
transfer = [transfer] = T
watt = [power] = W
joule = watt*second = J
watthour = watt*hour = Wh
USD = [money]
token = [token]
"""
NUMBER = re.compile(r"\s*([+-]?\d[\d_]{0,30}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,3})?)\s*(.*?)\s*")
UNIT = re.compile(r"%|(1\s*/\s*)?[^\W\d_]{1,20}(\s*[/*]\s*[^\W\d_]{1,20}){0,3}")
COMMON: dict[str, dict[str, str]] = {  # by SI text: what people mostly write, and its exact value
    "s": {
        "s": "1", "ms": "1e-3", "us": "1e-6", "ns": "1e-9",
        "min": "60", "hour": "3600", "day": "86400",
    },
    "B": {
        "B": "1", "kB": "1e3", "MB": "1e6", "GB": "1e9", "TB": "1e12",
        "KiB": f"{2**10}", "MiB": f"{2**20}", "GiB": f"{2**30}", "TiB": f"{2**40}",
    },
    "B/s": {
        "Gb/s": "125e6", "GB/s": "1e9", "Mb/s": "125e3", "MB/s": "1e6", "Tb/s": "125e9",
        "TB/s": "1e12", "GiB/s": f"{2**30}", "Gbps": "125e6", "Gbit/s": "125e6",
    },
    "flop/s": {"Tflop/s": "1e12", "Gflop/s": "1e9", "Pflop/s": "1e15", "TFLOPS": "1e12"},
}  # fmt: skip


def quantity(written: object, unit: Unit | str) -> float:
    """Parse a text with a unit into an SI float, rounded once.

    Prefixes are SI (``GB`` = 1e9 B) or IEC (``GiB`` = 2**30 B); ``b`` is a bit, ``B`` a byte.
    Only 0, ratios and counts may be bare numbers.

    Parameters
    ----------
    written : text or number
    unit : Unit, or the text of one
        Expected unit, such as ``"B/s"``.

    Raises
    ------
    ValueError
        No unit, an unknown one, or one that measures something else.

    Examples
    --------
    >>> quantity("400 Gb/s", "B/s"), quantity("80 GiB", "B"), quantity("90 %", "")
    (50000000000.0, 85899345920.0, 0.9)
    >>> quantity("450 GB", "B/s")
    Traceback (most recent call last):
    ValueError: '450 GB' is not a rate of data; write it like '400 Gb/s'
    """
    wanted = UNITS[unit] if isinstance(unit, str) else unit
    number, name = _split_quantity(written, wanted)
    if not name and number and wanted.text not in ("", "1"):
        measure = wanted.example.split(" ", 1)[1]
        raise ValueError(f"'{written}' has no unit; write for example '{written} {measure}'")
    try:
        factor = _unit_factor(name, wanted.text) if name else Fraction(1)
    except KeyError:
        raise _unknown_unit_error(name, written, wanted) from None
    if factor is None:
        raise _wrong_unit_error(written, wanted)
    try:
        return float(number * factor)
    except OverflowError:
        raise ValueError(
            f"'{written}' is too large for any quantity; write a smaller number"
        ) from None


def _split_quantity(written: object, wanted: Unit) -> tuple[Fraction, str]:
    """Exact number and unit name of a text such as ``80 GiB``."""
    text = str(written)
    found = NUMBER.fullmatch(text.removesuffix(" 1") if wanted.text == "1" else text)
    if not found or not isinstance(written, int | float | str) or isinstance(written, bool):
        raise _wrong_unit_error(written, wanted)
    if found[2] and not UNIT.fullmatch(found[2]):
        raise _wrong_unit_error(written, wanted)
    return Fraction(found[1]), found[2]


def _wrong_unit_error(written: object, wanted: Unit) -> ValueError:
    shown = str(written)
    shown = shown if len(shown) <= 40 else shown[:39] + "…"
    return ValueError(f"'{shown}' is not {wanted.what}; write it like '{wanted.example}'")


@cache
def _unit_registry() -> Any:
    """Pint registry of this module's units only; by pint's default, Gb is a gigagilbert."""
    import pint

    registry: Any = pint.UnitRegistry(None, non_int_type=Fraction, cache_folder=None)
    registry.load_definitions(DEFINITIONS.strip().splitlines())
    return registry


@cache
def _unit_factor(name: str, wanted: str) -> Fraction | None:
    """Conversion factor from a unit to an SI unit; None if it measures something else.

    Raises KeyError if the unit is unknown.
    """
    if common := COMMON.get(wanted, {}).get(name):
        return Fraction(common)  # importing pint takes as long as reading a scenario
    return _unit_factor_by_pint(name, wanted)


def _unit_factor_by_pint(name: str, wanted: str) -> Fraction | None:
    """Conversion factor from any unit to an SI unit, computed by pint."""
    from pint.errors import DimensionalityError, UndefinedUnitError

    try:
        one = _unit_registry().Quantity(Fraction(1), _parse_unit(name))
        return Fraction(one.to(_parse_unit(wanted)).magnitude)
    except UndefinedUnitError as error:
        raise KeyError(name) from error
    except DimensionalityError:
        return None


def _parse_unit(name: str) -> Any:
    return _unit_registry().parse_units("percent" if name == "%" else name)


def _unknown_unit_error(name: str, written: object, wanted: Unit) -> ValueError:
    known = COMMON.get(wanted.text, {})
    near = [k for k in known if k.lower() == name.lower()]
    near = near or [k for k in known if k.startswith(name)]
    near = near or difflib.get_close_matches(name, known, 1)
    hint = f"did you mean '{near[0]}'?" if near else f"write it like '{wanted.example}'"
    return ValueError(f"'{name}' in '{written}' is not a unit; {hint}")
