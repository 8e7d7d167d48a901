"""``measured``: your own measured iteration of a training job, used for calibration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from ...sim.units import Seconds
from ..config.schema import Section

SHORT = {"nodes": "cluster.nodes"}  # settings that are not the workload's


class MeasuredStep(Section):
    """A measured iteration, and the settings of the measurement."""

    iteration_time: Annotated[Seconds, Field(gt=0)]
    """Median time of the measured iterations."""
    on: dict[str, Any] = Field(default_factory=dict)
    """Settings that differed in the measurement: ``nodes``, those of the workload (``batch``,
    ``parallel: {tensor: 2}``), or any dotted path."""

    def settings(self) -> Iterator[tuple[str, Any]]:
        """Settings of the measurement by dotted path.

        >>> dict(MeasuredStep(iteration_time="1.9 s", on={"nodes": 1, "batch": 8}).settings())
        {'cluster.nodes': 1, 'workload.batch': 8}
        """
        for key, value in self.on.items():
            yield SHORT.get(key, key if "." in key else f"workload.{key}"), value

    @property
    def seconds(self) -> Seconds:
        """Measured iteration time in s."""
        return self.iteration_time

    @property
    def where(self) -> str:
        """Text of the settings under which the step was measured; ``as described`` if none differ.

        >>> MeasuredStep(iteration_time="1.9 s", on={"nodes": 1}).where
        'nodes: 1'
        """
        return ", ".join(f"{key}: {value}" for key, value in self.on.items()) or "as described"
