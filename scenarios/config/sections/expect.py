"""``expect``: conditions that must hold; they decide the exit code."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import PlainValidator

from ..condition import Condition, read_condition
from ..schema import Many, Section, register


def _read_condition(written: object) -> Condition:
    if not isinstance(written, str):
        raise ValueError(f"'{written}' is not a condition; write it like {EXAMPLE}")
    return read_condition(written)


EXAMPLE = "'iteration_time.p95 <= 37 s'"


class Expectation(Section):
    """A condition that must hold."""

    that: Annotated[Condition, PlainValidator(_read_condition, json_schema_input_type=str)]
    """``metric.statistic op quantity``, such as ``iteration_time.p95 <= 37 s``."""
    otherwise: Literal["fail", "warn"] = "fail"
    """Result if the condition does not hold: ``fail`` (exit code 5), or ``warn``."""


register(
    "expect",
    Many[Expectation],
    (),
    help="Conditions on metrics that must hold; if one does not, the exit code is 5.",
    inherited=False,
)
