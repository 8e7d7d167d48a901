"""Parallelism of a recorded training job, and the parallelism to resize it to."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...sim.units import Chunk
from ..config.schema import Section
from .iterations import Positive


class ParallelismDegrees(Section):
    """Degrees of parallelism of a model."""

    tensor: Positive = 1
    """Tensor-parallel degree: ranks that share each layer."""
    pipeline: Positive = 1
    """Pipeline-parallel degree: number of stages."""
    data: Positive = 1
    """Data-parallel degree: copies of the model."""
    expert: Literal[1] = 1
    """Expert-parallel degree; only 1."""

    @property
    def ranks(self) -> int:
        """Total number of ranks."""
        return self.tensor * self.pipeline * self.data


class WantedDegrees(ParallelismDegrees):
    """Degrees of parallelism that a recorded step is resized to."""

    expert: Positive = 1  # type: ignore[assignment]
    """Expert-parallel degree; must equal the recorded one."""
    context: Positive = 1
    """Context-parallel degree; must equal the recorded one."""


class RecordedOn(Section):
    """Machine and parallelism on which a trace was recorded."""

    device: str | None = None
    """Catalog name of the GPU or host that ran it."""
    host: str | None = None
    """Catalog name of the host that ran it. By default the cluster's host, if the cluster's GPU
    recorded the trace. Ops from another host keep their duration and widen the interval."""
    nodes: Positive | None = None
    """Number of machines."""
    parallel: ParallelismDegrees | None = None
    """Parallelism of the recorded job."""


class ScaledParallelism(Section):
    """Parallelism that a recorded step is resized to."""

    parallel: WantedDegrees
    """New degrees of parallelism. Data parallelism can change for any step, tensor parallelism if
    each rank held whole layers with recognizable pairs of linear layers (docs/traces.md)."""
    bucket: Annotated[Chunk, Field(gt=0)] | None = None
    """Size of DDP's gradient buckets (``bucket_cap_mb``), if DDP is added to one process or buckets
    are resized for tensor-parallel ranks. By default that of DDP: 25 MiB, the first 1 MiB."""
