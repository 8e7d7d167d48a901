"""Parallel plan of a training step, and the rules that a plan keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from ...sim.errors import PlanError
from .description import Transformer
from .operations import Split
from .precision import PRECISIONS, Precision

Recompute = Literal["none", "selective", "full"]
Schedule = Literal["1f1b", "gpipe"]
BUCKET = 40_000_000  # parameters; Megatron-LM's ddp_bucket_size of up to 40 data-parallel ranks


@dataclass(frozen=True)
class ParallelPlan:
    """Degrees of parallelism, batch, schedule, and what is shared or computed twice.

    Parameters
    ----------
    batch, micro_batch : sequences of a step of the whole job; that a rank takes at a time
    sequence : tokens of each
    tensor, pipeline, data : degrees; ranks in all are their product
    expert : data-parallel ranks that share the experts of a layer
    sequence_parallel : whether tensor-parallel ranks share norms and dropouts by tokens
    chunks : parts of the model on each pipeline stage (interleaved where more than one)
    schedule : of micro-batches in the pipeline
    zero : stage of ZeRO: 1 shares the optimizer among data-parallel ranks, 2 gradients too, 3
        weights too
    recompute : what is computed again backward: nothing, attention's core, or whole layers
    bucket : parameters whose gradients are reduced together
    overlap : whether gradients are reduced while others are computed
    fused_attention : whether scores are never written to memory
    imbalance : tokens of the busiest rank's experts, over the mean
    precision : element types

    Examples
    --------
    >>> plan = ParallelPlan(batch=64, sequence=2048, tensor=2, pipeline=4, data=8)
    >>> plan.ranks, plan.micro_batches
    (64, 8)
    """

    batch: int
    sequence: int
    micro_batch: int = 1
    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: int = 1
    sequence_parallel: bool = False
    chunks: int = 1
    schedule: Schedule = "1f1b"
    zero: int = 0
    recompute: Recompute = "none"
    bucket: int = BUCKET
    overlap: bool = True
    fused_attention: bool = True
    imbalance: float = 1.0
    precision: Precision = PRECISIONS["bf16"]

    @property
    def ranks(self) -> int:
        """Ranks in all."""
        return self.tensor * self.pipeline * self.data

    @property
    def micro_batches(self) -> int:
        """Micro-batches of each rank in a step."""
        return self.batch // (self.micro_batch * self.data)

    @property
    def split(self) -> Split:
        """Share of a micro-batch that one rank has."""
        return Split(
            self.micro_batch,
            self.sequence,
            self.tensor,
            self.sequence_parallel and self.tensor > 1,
            self.expert,
            self.imbalance,
            self.fused_attention,
            self.precision,
        )

    def with_value(self, setting: str, value: int) -> ParallelPlan:
        """Plan with another number in one setting.

        >>> ParallelPlan(batch=64, sequence=2048).with_value("tensor", 2).tensor
        2
        """
        changed: dict[str, Any] = {setting: value}
        return replace(self, **changed)

    def is_allowed(self, model: Transformer) -> bool:
        """Whether it keeps every rule.

        >>> tiny = Transformer(hidden=8, layers=6, heads=2, vocabulary=10, inner=32)
        >>> ParallelPlan(batch=8, sequence=16, pipeline=4).is_allowed(tiny)
        False
        """
        return not any(True for _ in self._broken_rules(model))

    def _broken_rules(self, model: Transformer) -> Iterator[Rule]:
        return (rule for rule in _rules(model, self) if not rule[2](self))

    def check(self, model: Transformer) -> None:
        """Refuse a plan that breaks a rule, with the rule and the nearest setting that keeps it.

        Raises
        ------
        PlanError
            Names the setting.

        Examples
        --------
        >>> tiny = Transformer(hidden=8, layers=6, heads=2, vocabulary=10, inner=32)
        >>> ParallelPlan(batch=8, sequence=16, pipeline=4).check(tiny)
        Traceback (most recent call last):
        foretrace.sim.errors.PlanError: workload.parallel.pipeline: 4 stages do not share 6 \
layers evenly; take 3
        """
        for setting, rule, holds, values in self._broken_rules(model):
            near = [v for v in values if holds(self.with_value(setting, v))]
            now = getattr(self, setting)
            cure = f"take {min(near, key=lambda v: (abs(v - now), v))}" if near else (
                "no value of it does; change what it is divided by")  # fmt: skip
            raise PlanError(f"workload.{SETTINGS[setting]}: {rule}; {cure}")


SETTINGS = {
    "tensor": "parallel.tensor",
    "pipeline": "parallel.pipeline",
    "data": "parallel.data",
    "expert": "parallel.expert",
    "sequence_parallel": "parallel.sequence",
    "chunks": "schedule.chunks",
    "zero": "zero",
    "recompute": "recompute",
    "micro_batch": "micro_batch",
    "batch": "batch",
}
"""Where each setting stands in a scenario, below ``workload``."""
Rule = tuple[str, str, Callable[[ParallelPlan], bool], range]


def _rules(model: Transformer, plan: ParallelPlan) -> list[Rule]:
    """Setting that is to change, the rule in words, whether a plan keeps it, and its values."""
    t, p, d, e = plan.tensor, plan.pipeline, plan.data, plan.expert
    experts = model.experts.count if model.experts else 1
    once = plan.micro_batch * d
    heads = model.key_value_heads
    return [
        ("tensor", f"{t} ranks do not share {model.heads} heads of attention evenly",
         lambda a: model.heads % a.tensor == 0, range(1, model.heads + 1)),
        ("tensor", f"{t} ranks do not share {heads} heads of keys evenly, nor have one each evenly",
         lambda a: heads % a.tensor == 0 or a.tensor % heads == 0, range(1, model.heads + 1)),
        ("tensor", f"{t} ranks do not share a sequence of {plan.sequence} tokens evenly",
         lambda a: not a.sequence_parallel or a.sequence % a.tensor == 0, range(1, t + 1)),
        ("pipeline", f"{p} stages do not share {model.layers} layers evenly",
         lambda a: model.layers % a.pipeline == 0, range(1, model.layers + 1)),
        ("chunks", f"a pipeline of {p} stages has no chunks to interleave",
         lambda a: a.pipeline > 1 or a.chunks == 1, range(1, 2)),
        ("chunks", f"{plan.chunks} chunks on each of {p} stages do not share {model.layers} layers "
         "evenly", lambda a: model.layers % (a.pipeline * a.chunks) == 0, range(1, model.layers)),
        ("chunks", "GPipe runs one chunk on each stage",
         lambda a: a.schedule != "gpipe" or a.chunks == 1, range(1, 2)),
        ("expert", f"{e} ranks do not share {experts} experts evenly",
         lambda a: experts % a.expert == 0, range(1, experts + 1)),
        ("expert", f"{e} ranks that share experts are not a part of {d} data-parallel ranks",
         lambda a: a.data % a.expert == 0 and experts % a.expert == 0, range(1, d + 1)),
        ("zero", f"ZeRO-{plan.zero} shares gradients, which a pipeline adds up over micro-batches "
         "(as in DeepSpeed)", lambda a: a.zero < 2 or a.pipeline == 1, range(2)),
        ("batch", f"{plan.batch} sequences are no multiple of {d} data-parallel ranks x "
         f"{plan.micro_batch} of a micro-batch", lambda a: a.batch % once == 0,
         range(once, plan.batch + once + 1)),
        ("batch", f"{plan.batch} sequences are {plan.micro_batches} micro-batches of a rank, fewer "
         f"than {p} stages", lambda a: a.micro_batches >= a.pipeline,
         range(once * p, once * p + 1)),
        ("batch", f"{plan.micro_batches} micro-batches of a rank are no multiple of {p} stages, as "
         "an interleaved pipeline needs",
         lambda a: a.chunks == 1 or a.batch % (once * p) == 0,
         range(once * p, plan.batch + once * p + 1)),
    ]  # fmt: skip
