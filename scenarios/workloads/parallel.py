"""Parallelism of a training job: as recorded, and as wanted."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...sim.units import Chunk
from ..config.schema import Section
from .iterations import Positive


class ParallelismDegrees(Section):
    """Degrees of parallelism of a model."""

    tensor: Positive = 1
    """Ranks that share each layer."""
    pipeline: Positive = 1
    """Ranks in a row, a block of layers each."""
    data: Positive = 1
    """Copies of the model, each with its own samples."""
    expert: Literal[1] = 1
    """Ranks that share the experts of a layer: each has its own."""

    @property
    def ranks(self) -> int:
        """Ranks in all."""
        return self.tensor * self.pipeline * self.data


class WantedDegrees(ParallelismDegrees):
    """Degrees of parallelism that a recorded step is resized to."""

    expert: Positive = 1  # type: ignore[assignment]
    """Ranks that share the experts of a layer: only as recorded."""
    context: Positive = 1
    """Ranks that share a sequence: only as recorded."""


class RecordedOn(Section):
    """Machine and parallelism on which a trace was recorded."""

    device: str | None = None
    """Catalog name of the GPU or host that ran it."""
    host: str | None = None
    """Catalog name of the host beside the GPU.  Unsaid, the cluster's host recorded it where the
    cluster's GPU did; ops that another host recorded last as there, and widen the interval."""
    nodes: Positive | None = None
    """Machines that took part."""
    parallel: ParallelismDegrees | None = None
    """How its ranks shared the model."""


class ScaledParallelism(Section):
    """Parallelism that the trace is resized to."""

    parallel: WantedDegrees
    """Groups of the size wanted.  Data-parallel ones of any step; tensor-parallel ones of a step
    whose ranks held whole layers, where its pairs of linear layers can be told (docs/traces.md)."""
    bucket: Annotated[Chunk, Field(gt=0)] | None = None
    """Cap of DDP's gradient buckets (``bucket_cap_mb``), where DDP is added to one process, or its
    buckets are re-sized for tensor-parallel ranks; unsaid, DDP's own: 25 MiB, the first 1 MiB."""
