"""``answer``: the metric that decides, if it is not the headline metric of the first job."""

from __future__ import annotations

from typing import Annotated

from pydantic import PlainValidator

from ..schema import register
from .sweep import ObjectiveSection, read_objective

register(
    "answer",
    Annotated[object, PlainValidator(read_objective, json_schema_input_type=ObjectiveSection)],
    None,
    help="The metric that decides, as `{minimize: ttft.p99}`; by default the headline metric of "
    "the first job's workload.",
)
