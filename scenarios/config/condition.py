"""Conditions of the form ``metric.statistic op quantity``; parsed, never evaluated as code."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from ...sim.units import quantity
from .metrics import parse_metric

Compare = Callable[[float, float], bool]
COMPARE: dict[str, Compare] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}
FORM = re.compile(r"\s*([A-Za-z_*][\w.*-]*)\s*(<=|>=|==|[<>](?!=))\s*(\S.*?)\s*")


@dataclass(frozen=True)
class Condition:
    """A condition on one metric value, such as ``iteration_time.p95 <= 37 s``.

    Parameters
    ----------
    metric : name of the metric as written, without its statistic
    statistic : ``p95``, ``mean``, ``peak`` …; "" for a metric with a single value
    op : ``<=``, ``>=``, ``<``, ``>`` or ``==``
    limit : limit in SI, in ``unit``; for a change, a ratio
    unit : SI unit of the metric
    text : the condition as written
    relative : True if the condition is on the change against another run, not on the value

    Examples
    --------
    >>> c = read_condition("iteration_time.p95 <= 37 s")
    >>> c.limit, c.holds(36.0), c.holds(38.0)
    (37.0, True, False)
    """

    metric: str
    statistic: str
    op: str
    limit: float
    unit: str
    text: str
    relative: bool = False

    @property
    def name(self) -> str:
        """Metric and statistic, such as ``iteration_time.p95``."""
        return f"{self.metric}.{self.statistic}".rstrip(".")

    def holds(self, value: float) -> bool:
        """True if a value in SI meets the condition; NaN meets none."""
        return COMPARE[self.op](value, self.limit)


def read_condition(text: str) -> Condition:
    """Parse a condition ``metric.statistic op quantity``.

    Raises
    ------
    ValueError
        The form, the metric, the statistic or the unit of the quantity is wrong.

    Examples
    --------
    >>> read_condition("makespan <= 76 MB")
    Traceback (most recent call last):
    ValueError: '76 MB' is not a time; write it like '30 s'
    """
    metric, op, limit = _split_condition(text, "iteration_time.p95 <= 37 s")
    known, name, statistic = parse_metric(metric)
    return Condition(name, statistic, op, quantity(limit, known.unit), known.unit, text)


def read_change_condition(text: str) -> Condition:
    """Parse ``metric.statistic op +quantity %``, a condition on the change against another run.

    Examples
    --------
    >>> read_change_condition("iteration_time.p50 > +3 %").limit
    0.03
    """
    metric, op, limit = _split_condition(text, "iteration_time.p50 > +3 %")
    known, name, statistic = parse_metric(metric)
    try:
        share = quantity(limit, "")
    except ValueError as error:
        raise ValueError(
            f"'{limit}' is not a relative change; write it like '+3 %', or put a limit on the "
            "value itself under expect"
        ) from error
    return Condition(name, statistic, op, share, known.unit, text, relative=True)


def _split_condition(text: str, example: str) -> tuple[str, str, str]:
    found = FORM.fullmatch(text)
    if not found:
        raise ValueError(f"'{text}' is not a condition; write it like '{example}'")
    metric, op, limit = found.groups()
    return metric, op, limit
