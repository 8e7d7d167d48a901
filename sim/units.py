"""Units: SI floats inside, text with a unit at every border, integer ticks in the engines.

A name in code carries no unit when its value is SI.  The aliases below say which unit a
parameter has; the loader reads them from the annotation to check what a user wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Unit:
    """The SI unit of an annotated float, and an example of how a user writes it."""

    text: str
    example: str


Seconds = Annotated[float, Unit("s", "2.1 us")]
Bytes = Annotated[float, Unit("B", "80 GiB")]
ByteRate = Annotated[float, Unit("B/s", "400 Gbit/s")]
Flop = Annotated[float, Unit("flop", "2 Gflop")]
FlopRate = Annotated[float, Unit("flop/s", "989 Tflop/s")]
Watts = Annotated[float, Unit("W", "700 W")]
Money = Annotated[float, Unit("USD", "30000 USD")]
MoneyRate = Annotated[float, Unit("USD/s", "2.10 USD/hour")]
Ratio = Annotated[float, Unit("", "0.8")]

PICOSECOND = 1e-12
NANOSECOND = 1e-9
MAX_TICK = 2**63 - 1


def ticks_per_second(tick: Seconds = PICOSECOND) -> int:
    """How many ticks make a second.

    >>> ticks_per_second(1e-9)
    1000000000
    """
    return round(1 / tick)


@overload
def ticks(seconds: float, tick: Seconds = ...) -> int: ...
@overload
def ticks(seconds: NDArray[np.float64], tick: Seconds = ...) -> NDArray[np.int64]: ...
def ticks(seconds: ArrayLike, tick: Seconds = PICOSECOND) -> int | NDArray[np.int64]:
    """Round seconds to whole ticks, half to even; the only place where time is rounded.

    Whole nanoseconds that went through float seconds come back exactly up to 1,000 s.

    Raises
    ------
    OverflowError
        A time that is not a number, or beyond the range of int64 ticks.

    Examples
    --------
    >>> ticks(1.5e-12), ticks(2.5e-12), ticks(1e-9)
    (2, 2, 1000)
    >>> ticks(np.array([0.0, 1e-6])).tolist()
    [0, 1000000]
    """
    scaled = np.rint(np.asarray(seconds, np.float64) * ticks_per_second(tick))
    if not np.all(np.abs(scaled) < 2.0**63):
        bad = np.asarray(seconds, np.float64)[~(np.abs(scaled) < 2.0**63)].flat[0]
        raise OverflowError(
            f"{bad} s is outside the {2**63 * tick / 86400:.4g} days that ticks of {tick:g} s hold"
        )
    whole = scaled.astype(np.int64)
    return whole if whole.ndim else int(whole)


def seconds(ticks: ArrayLike, tick: Seconds = PICOSECOND) -> NDArray[np.float64]:
    """Ticks as SI seconds, for people.

    >>> float(seconds(1_500_000))
    1.5e-06
    """
    return np.asarray(np.asarray(ticks, np.float64) / ticks_per_second(tick))
