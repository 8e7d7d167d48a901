"""Memory of a training rank: weights, gradients, optimizer, and activations by schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ....sim.facts.signature import WIDTH
from ....sim.units import Bytes
from ..description.description import Model, Transformer
from ..layer.feed_forward import exchange_buffers
from ..layer.layers import Layer
from .gradients import DATA, EXPERT_DATA, replica_count
from .parallel_plan import ParallelPlan
from .schedules import INPUT, WEIGHT, PipelineTurn, turns_of_stage
from .stages import (
    chunks_of_stage,
    frozen_weights,
    is_recomputed,
    saved_bytes,
    stage_weights,
)

NO_LAYERS: Mapping[str, Bytes] = {}
RESERVE = 2 * 2**30  # B; context, libraries, buffers of NCCL: assumed


@dataclass(frozen=True)
class RankMemory:
    """Memory of the ranks of one pipeline stage, in B.

    Parameters
    ----------
    weights, gradients, optimizer : memory of weights, gradients and optimizer state, held during
        the complete step
    activations : activations saved for the backward pass, at the peak
    working : temporary memory of the current op: activation gradients, recomputed layers, gathered
        weights
    reserve : memory that the runtime and the communication library use
    buffers : buffers of a low-latency token exchange
    host : host memory, in addition: an offloaded optimizer, and the gradients it receives
    at : pipeline turn of the peak
    """

    stage: int
    weights: Bytes
    gradients: Bytes
    optimizer: Bytes
    activations: Bytes
    working: Bytes
    reserve: Bytes
    at: PipelineTurn
    host: Bytes = 0.0
    buffers: Bytes = 0.0

    @property
    def parts(self) -> dict[str, Bytes]:
        """Bytes by category, with category names for display."""
        return {
            "weights": self.weights,
            "gradients": self.gradients,
            "optimizer": self.optimizer,
            "activations": self.activations,
            "work under way": self.working,
            "reserve": self.reserve,
            **({"buffers of the exchange": self.buffers} if self.buffers else {}),
        }

    @property
    def states(self) -> Bytes:
        """Bytes of weights, gradients and optimizer."""
        return self.weights + self.gradients + self.optimizer

    @property
    def peak(self) -> Bytes:
        """Peak memory: the sum of all categories."""
        return sum(self.parts.values())

    def when(self) -> str:
        """Description of the moment of the peak."""
        return f"{self.at.what.value} of micro-batch {self.at.micro_batch}, chunk {self.at.chunk}"


@dataclass(frozen=True)
class ChunkMemory:
    """Memory per micro-batch in one chunk of a stage, in B.

    Parameters
    ----------
    kept : memory saved from the forward pass to the end of the backward pass
    working : temporary memory used during a backward pass
    later : saved from the input-gradient pass to the end of the weight-gradient pass
    layers : ``kept`` by layer name
    """

    kept: Bytes
    working: Bytes
    later: Bytes
    layers: Mapping[str, Bytes] = field(default_factory=lambda: NO_LAYERS)


def chunk_memory(chunk: tuple[Layer, ...], plan: ParallelPlan) -> ChunkMemory:
    """Memory per micro-batch of the layers in a pipeline chunk.

    >>> from ..description.description import Transformer
    >>> tiny = Transformer(hidden=8, layers=2, heads=2, vocabulary=10, inner=32)
    >>> plan = ParallelPlan(batch=2, sequence=4, pipeline=2)
    >>> [*chunk_memory(chunks_of_stage(tiny, plan, 0)[0], plan).layers]
    ['embedding', 'dense layer']
    """
    layers: dict[str, Bytes] = {}
    for layer in chunk:
        layers[layer.name] = layers.get(layer.name, 0.0) + saved_bytes(layer, plan)
    later = float(sum(layer.kept_for_weights for layer in chunk))
    return ChunkMemory(float(sum(layers.values())), _working_bytes(chunk, plan), later, layers)


def rank_memory(
    model: Model, plan: ParallelPlan, stage: int, reserve: Bytes = RESERVE
) -> RankMemory:
    """Memory of the ranks of a stage.

    ZeRO shards the optimizer, from stage 2 also gradients, from stage 3 also weights (Rajbhandari
    et al. 2020, arXiv:1910.02054, section 5).

    Examples
    --------
    >>> from ..description.description import Transformer
    >>> tiny = Transformer(hidden=8, layers=2, heads=2, vocabulary=10, inner=32)
    >>> one = rank_memory(tiny, ParallelPlan(batch=2, sequence=4), 0)
    >>> int(one.weights), int(one.gradients), int(one.optimizer)  # 1,840 parameters
    (3680, 7360, 22080)
    """
    types = plan.precision
    trained, kept = stage_weights(model, plan, stage), frozen_weights(model, plan, stage)
    whole, share = _whole_and_share(plan, trained)
    frozen = _whole_and_share(plan, kept)[plan.zero == 3]
    experts = trained[1] + kept[1]
    updated_parameters = share if plan.zero else whole
    chunks = chunks_of_stage(model, plan, stage)
    tables = sum(layer.tables for chunk in chunks for layer in chunk)
    at, activations, working = _peak_of_schedule(plan, stage, chunks)
    # adapter GEMMs use the stored weights
    width = types.width(types.weights, weights=True) if frozen else types.weight_bytes
    return RankMemory(
        stage,
        width * (share if plan.zero == 3 else whole) + WIDTH[types.weights] * tables
        + types.frozen_bytes * frozen,
        WIDTH[types.gradients] * (share if plan.zero >= 2 else whole),
        0.0 if plan.offload else types.optimizer_bytes * updated_parameters,
        activations,
        working,
        reserve,
        at,
        (types.host_bytes + WIDTH[types.gradients]) * updated_parameters if plan.offload else 0.0,
        _buffers(model, plan) if experts and plan.exchange != "normal" else 0.0,
    )  # fmt: skip


def _whole_and_share(plan: ParallelPlan, counts: tuple[int, int]) -> tuple[float, float]:
    """Number of parameters on a rank, and number of those in its ZeRO shard.

    Parameters
    ----------
    counts : number of parameters outside experts, and in experts
    """
    groups = zip(counts, (DATA, EXPERT_DATA), strict=True)
    return float(sum(counts)), float(sum(n / replica_count(plan, group) for n, group in groups))


def _buffers(model: Model, plan: ParallelPlan) -> Bytes:
    """Bytes of the token-exchange buffers; one set serves all layers."""
    assert isinstance(model, Transformer)  # noqa: S101  rules of a plan ask for experts
    assert model.experts  # noqa: S101
    return exchange_buffers(model.experts, model.hidden, plan.split)


def _peak_of_schedule(
    plan: ParallelPlan, stage: int, chunks: tuple[tuple[Layer, ...], ...]
) -> tuple[PipelineTurn, Bytes, Bytes]:
    """Pipeline turn of the peak, with its bytes of activations and of working memory."""
    each = [chunk_memory(chunk, plan) for chunk in chunks]
    kept, working, later = np.array([(c.kept, c.working, c.later) for c in each]).T
    turns = turns_of_stage(plan.schedule, stage, plan.pipeline, plan.micro_batches, plan.chunks)
    before = np.where(turns.forward, kept[turns.chunk], 0.0)
    after = np.where(turns.makes_input_gradients, -kept[turns.chunk], 0.0)
    apart = (turns.kind == INPUT) * 1.0 - (turns.kind == WEIGHT)  # saved for weight gradients
    changes = np.stack([before, after, apart * later[turns.chunk]], axis=1)
    held = np.cumsum(changes)[::3]  # during each turn, before memory is released
    now = np.where(turns.makes_input_gradients, working[turns.chunk], 0.0)
    most = int(np.argmax(held + now))
    return turns[most], float(held[most]), float(now[most])


def _working_bytes(chunk: tuple[Layer, ...], plan: ParallelPlan) -> Bytes:
    """Largest temporary memory of a chunk's backward pass, in B.

    The gradient of the largest saved tensor has the size of that tensor. A recomputed layer briefly
    holds all its activations.
    """
    return max((_working_bytes_of_layer(layer, plan) for layer in chunk), default=0.0)


def _working_bytes_of_layer(layer: Layer, plan: ParallelPlan) -> Bytes:
    found = max((o.kept for o in layer.operations), default=0.0)
    if is_recomputed(layer, plan):
        found += layer.kept
    elif plan.recompute == "selective":
        found += sum(o.core for o in layer.operations)
    if plan.zero == 3:  # this layer's weights, the next one's, and this one's gradients
        types = plan.precision
        trained, frozen = (types.width(t, weights=True) for t in (types.weights, types.of_frozen))
        each = 2 * trained + WIDTH[types.gradients]
        found += each * (layer.weights + layer.expert_weights)
        found += 2 * frozen * (layer.frozen + layer.frozen_experts)
    return found


@lru_cache(maxsize=1024)  # cached, since every memory check calls it
def memory_of_stages(
    model: Model, plan: ParallelPlan, reserve: Bytes = RESERVE
) -> tuple[RankMemory, ...]:
    """Memory of the ranks of each stage, in order.

    >>> from ..description.description import Transformer
    >>> tiny = Transformer(hidden=8, layers=2, heads=2, vocabulary=10, inner=32)
    >>> len(memory_of_stages(tiny, ParallelPlan(batch=2, sequence=4, pipeline=2)))
    2
    """
    return tuple(rank_memory(model, plan, stage, reserve) for stage in range(plan.pipeline))
