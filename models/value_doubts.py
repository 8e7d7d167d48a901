"""Error intervals of values that were not measured, by kind of value, and from a median error.

``calibration/fit/value_doubts.py`` estimates them from catalog values for which a datasheet, or the
value of another part, can be compared with a measurement.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..sim.facts.doubt import QUANTILES, Doubt

# calibration/fit/value_doubts.py: 90 % quantile over median of absolute errors, in the median of
# 174 families and regimes of models/catalog/kernels that were held out
WIDER = 2.8
END = 0.95  # probability at the upper end of an interval; 1 - END at the lower end


class FactorRange(NamedTuple):
    """90 % interval of a factor on a time, in logarithms.

    Parameters
    ----------
    quick, slow : ln of the lower and upper factor
    """

    quick: float
    slow: float


# calibration/fit/value_doubts.py: 11 shares of a datasheet's rate that were reached; 8 and 15 pairs
# of the same value of two parts
DATASHEET_RATE = FactorRange(0.1, 0.35)
ASSUMED_RATE = FactorRange(-0.14, 0.14)
UNMEASURED_TIME = FactorRange(-0.97, 0.97)


def range_from_median_error(error: float) -> FactorRange:
    """90 % interval of a time of which only the median absolute relative error is known.

    >>> [round(e, 2) for e in range_from_median_error(0.1)]
    [-0.25, 0.25]
    """
    slow = float(np.log1p(WIDER * error))
    return FactorRange(-slow, slow)


def doubt_without_measurements() -> Doubt:
    """Error interval of a family without measured errors: that of an assumed time.

    >>> low, high = doubt_without_measurements().interval()
    >>> round(low, 2), round(high, 2)
    (0.38, 2.64)
    """
    at = (np.arange(QUANTILES) + 0.5) / QUANTILES
    quick, slow = UNMEASURED_TIME
    line = quick + (slow - quick) * (at - (1 - END)) / (2 * END - 1)
    return Doubt("", "", tuple(line.tolist()))
