"""Parallel plan of a training step, and the rules that a valid plan satisfies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ....sim.errors import PlanError
from ..description.description import ImageNetwork, Model, Transformer
from ..layer.operations import ContextBy, ExchangeBy, Loss, Split
from ..layer.precision import PRECISIONS, Precision
from .expert_choice import ExpertChoice

Recompute = Literal["none", "selective", "full"]
Schedule = Literal["1f1b", "combined-1f1b", "gpipe", "zb-h1", "zb-h2", "zb-v", "dualpipe"]
Reducer = Literal["megatron", "ddp"]
BUCKET = 40_000_000  # parameters; Megatron-LM's ddp_bucket_size of up to 40 data-parallel ranks


@dataclass(frozen=True)
class ParallelPlan:
    """Parallel plan: degrees of parallelism, batch, schedule, sharding and recomputation.

    Parameters
    ----------
    batch, micro_batch : sequences per step of the complete job, and per micro-batch of a rank
    sequence : tokens per sequence
    tensor, pipeline, data, context : parallel degrees; their product is the number of ranks
    context_by : how context-parallel ranks combine their queries with all keys
    balanced : True if each context-parallel rank has an early and a late part of the sequence
        (zigzag)
    document : tokens per document in a packed sequence, which attend only to their own document; 0
        for one document
    expert : expert-parallel degree: number of ranks that divide the experts of a layer, and have
        equal copies of the other weights
    sequence_parallel : True if tensor-parallel ranks divide norms and dropouts by tokens
    chunks : model chunks per pipeline stage (interleaved if more than one)
    schedule : pipeline schedule
    ends : number of layers as which the embedding, and also the output layer, count when layers are
        divided among stages
    zero : ZeRO stage: 1 shards the optimizer, 2 also gradients, 3 also weights
    recompute : what is recomputed in the backward pass: nothing, the attention core, or complete
        layers
    recompute_layers : with ``full``, number of layers per chunk that are recomputed, counted from
        the first; 0 for all
    bucket : parameters per gradient bucket in the first part of the model; every other part of a
        pipeline is one bucket (``gradients.bucket_size``)
    first_bucket : parameters of the first bucket if it is smaller; 0 otherwise
    reducer : how gradients get into the buckets that are reduced: ``megatron`` writes them there
        directly; ``ddp`` scales each into its bucket and copies it back, and broadcasts batch-norm
        statistics before each step (torch's DistributedDataParallel)
    overlap : True if gradients are reduced while others are computed
    gather_ahead : True if weights updated in shards (ZeRO 1 and 2) are gathered, bucket by bucket,
        during the first forward pass of the next step in place of after the update
    fused_attention : True if attention scores are never written to memory
    loss : ``fused``: one op in each direction; ``written``: the ops of torch's cross-entropy
    imbalance : tokens of the busiest rank's experts divided by the mean
    exchange : how tokens are sent to experts and back
    routing : how often each expert is chosen, which sets the imbalance; None for equally often
    precision : element types
    offload : True if the optimizer and the master weights are on the host
    stages : (pipeline,) number of layers of each stage; () for equal stages
    whole_layers : True if each layer is one forward and one backward op, as in layer profiles
    host_threads : True if each rank has a host thread that dispatches its ops in order

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
    context: int = 1
    context_by: ContextBy = "ring"
    balanced: bool = True
    document: int = 0
    expert: int = 1
    sequence_parallel: bool = False
    chunks: int = 1
    schedule: Schedule = "1f1b"
    ends: int = 0
    zero: int = 0
    recompute: Recompute = "none"
    recompute_layers: int = 0
    bucket: int = BUCKET
    first_bucket: int = 0
    reducer: Reducer = "megatron"
    overlap: bool = True
    gather_ahead: bool = True
    fused_attention: bool = True
    loss: Loss = "fused"
    imbalance: float = 1.0
    exchange: ExchangeBy = "normal"
    routing: ExpertChoice | None = None
    precision: Precision = PRECISIONS["bf16"]
    offload: bool = False
    stages: tuple[int, ...] = ()
    whole_layers: bool = False
    host_threads: bool = False

    @property
    def ranks(self) -> int:
        """Total number of ranks."""
        return self.tensor * self.pipeline * self.copies

    @property
    def ranks_of_a_copy(self) -> int:
        """Number of ranks that work on the same sequences."""
        return self.tensor * self.pipeline * self.context

    @property
    def copies(self) -> int:
        """Number of ranks of a stage that hold the same weights: data x context degree."""
        return self.data * self.context

    @property
    def places(self) -> int:
        """Number of context-parallel ranks with different work; 1 if all have the same."""
        return 1 if self.balanced or self.context_by == "ulysses" else self.context

    @property
    def is_folded(self) -> bool:
        """True if the second chunk of stage i belongs to the i-th stage from the other end."""
        return self.schedule in ("zb-v", "dualpipe")

    @property
    def parts(self) -> int:
        """Number of consecutive model parts in the pipeline."""
        return self.pipeline * (2 if self.schedule == "zb-v" else self.chunks)

    @property
    def micro_batches(self) -> int:
        """Number of micro-batches of each rank per step."""
        return self.batch // (self.micro_batch * self.data)

    @property
    def gathers_ahead(self) -> bool:
        """True if a step starts with sharded weights that must be gathered.

        >>> ParallelPlan(batch=8, sequence=8, data=8, zero=1).gathers_ahead
        True
        """
        return self.gather_ahead and self.zero in (1, 2) and self.copies > 1

    @property
    def split(self) -> Split:
        """Part of a micro-batch that one rank processes."""
        return self.split_at(0)

    def split_at(self, place: int) -> Split:
        """Part of a micro-batch of one rank, by its index among context-parallel ranks."""
        return Split(
            self.micro_batch,
            self.sequence,
            tensor=self.tensor,
            sequence_parallel=self.sequence_parallel and self.tensor > 1,
            context=self.context,
            context_by=self.context_by,
            balanced=self.balanced,
            place=place,
            document=self.document,
            expert=self.expert,
            imbalance=self.imbalance
            * (self.routing.busiest_over_mean(self.expert) if self.routing else 1.0),
            exchange=self.exchange,
            shares=self.routing.shares(self.expert) if self.routing else (),
            fused_attention=self.fused_attention,
            loss=self.loss,
            precision=self.precision,
        )

    def with_value(self, setting: str, value: Any) -> ParallelPlan:
        """Copy of the plan with another value of one setting.

        >>> ParallelPlan(batch=64, sequence=2048).with_value("tensor", 2).tensor
        2
        """
        changed: dict[str, Any] = {setting: value}
        return replace(self, **changed)

    def is_allowed(self, model: Model) -> bool:
        """True if the plan satisfies every rule.

        >>> tiny = Transformer(hidden=8, layers=6, heads=2, vocabulary=10, inner=32)
        >>> ParallelPlan(batch=8, sequence=16, pipeline=4).is_allowed(tiny)
        False
        """
        if self.stages and len(self.stages) != self.pipeline:
            return False
        return not any(True for _ in self._broken_rules(model))

    def _broken_rules(self, model: Model) -> Iterator[Rule]:
        return (rule for rule in _rules(model, self) if not rule[2](self))

    def check(self, model: Model, gpus: int = 0) -> None:
        """Raise an error for a plan that breaks a rule, with the nearest value that keeps it.

        Parameters
        ----------
        gpus : number of GPUs that model copies must fill, with any number of copies; 0 to keep the
            plan's copies

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
        self._check_stages(model)
        for setting, rule, holds, values in self._broken_rules(model):
            keeping = [v for v in values if holds(self.with_value(setting, v))]
            near = self._allowed_values(model, setting, keeping, gpus) or keeping
            now = getattr(self, setting)
            cure = f"take {_nearest(now, near)}" if near else (
                "no value of this setting is possible; change the other numbers named "
                "here")  # fmt: skip
            raise PlanError(f"workload.{SETTINGS[setting]}: {rule}; {cure}")

    def has_possible_degrees(self, model: Model) -> bool:
        """True if the model can be divided with these degrees on some number of GPUs.

        >>> tiny = Transformer(hidden=8, layers=6, heads=2, vocabulary=10, inner=32)
        >>> ParallelPlan(batch=8, sequence=16, tensor=3).has_possible_degrees(tiny)
        False
        """
        return not any(setting in DEGREES for setting, *_ in self._broken_rules(model))

    def degree_that_fills(self, model: Model, gpus: int) -> str:
        """Setting of one parallel degree with which model copies fill all GPUs; "" if none does.

        It is the value nearest to the current one, for the first degree that has such a value.

        >>> tiny = Transformer(hidden=8, layers=6, heads=2, vocabulary=10, inner=32)
        >>> ParallelPlan(batch=8, sequence=16, pipeline=3).degree_that_fills(tiny, 8)
        'parallel.pipeline: 2'
        """
        for name in DEGREES:
            now = getattr(self, name)
            values = range(1, gpus + 1) if now > 1 else ()
            if near := self._allowed_values(model, name, values, gpus):
                return f"{SETTINGS[name]}: {_nearest(now, near)}"
        return ""

    def _allowed_values(
        self, model: Model, setting: str, values: Iterable[Any], gpus: int
    ) -> list[Any]:
        """Values of a setting that satisfy every rule and let model copies fill the GPUs."""
        found = []
        for value in values:
            plan = self.with_value(setting, value)
            if gpus and setting in DEGREES:
                copies, rest = divmod(gpus, plan.ranks_of_a_copy)
                if rest or not copies:
                    continue
                plan = replace(plan, data=copies)
            if plan.is_allowed(model):
                found.append(value)
        return found

    def _check_stages(self, model: Model) -> None:
        """Raise an error if the layers of stages do not add up or cannot be single ops."""
        if not (self.stages or self.whole_layers):
            return
        if not isinstance(model, Transformer):
            setting = "parallel.layers" if self.stages else "execution.detail: layers"
            raise PlanError(f"workload: {setting} is for a transformer; leave it out")
        layers = shared_layers(model, self)
        if self.stages and (len(self.stages), sum(self.stages)) != (self.pipeline, layers):
            raise PlanError(
                f"workload.parallel.layers: {list(self.stages)} are {sum(self.stages)} layers of "
                f"{len(self.stages)} stages; give {self.pipeline} numbers (parallel.pipeline) that "
                f"add up to {layers}"
            )
        if self.whole_layers and model.adapters:
            raise PlanError(
                "workload.execution.detail: is layers, which does not support adapters; leave "
                "optimizer.adapters out, or take execution.detail: ops"
            )
        if self.stages and (self.chunks > 1 or self.is_folded):
            chunks = self.chunks if self.chunks > 1 else 2
            cure = "schedule.chunks: 1" if self.chunks > 1 else "schedule.use: 1f1b"
            raise PlanError(
                f"workload.parallel.layers: with {chunks} chunks per stage, all chunks have the "
                f"same number of layers; take {cure}, or leave parallel.layers out"
            )
        if self.whole_layers and (self.schedule not in WHOLE_PASSES or self.context > 1):
            setting = "parallel.context: 1" if self.context > 1 else "schedule.use: 1f1b"
            raise PlanError(
                "workload.execution.detail: is layers, which supports neither context parallelism "
                f"nor split backward passes; take {setting}, or execution.detail: ops"
            )
        if self.whole_layers and self.host_threads:
            raise PlanError(
                "workload.execution.hosts: with execution.detail: layers, the time of a layer "
                "already includes its host; take execution.hosts: ahead, or execution.detail: ops"
            )
        if self.whole_layers and self.recompute_layers:
            raise PlanError(
                "workload.execution.detail: is layers, which recomputes all layers or none; leave "
                "memory.recompute_layers out, or take execution.detail: ops"
            )
        if self.whole_layers and (self.recompute == "selective" or self.zero or self.offload):
            setting = "parallel.zero: 0" if self.zero else "memory.recompute: none, or full"
            setting = "memory.offload: none" if self.offload else setting
            raise PlanError(
                "workload.execution.detail: is layers, which supports no selective recomputation, "
                f"ZeRO or offload; take {setting}, or execution.detail: ops"
            )


def _nearest(now: Any, values: Sequence[Any]) -> Any:
    """Value nearest to the current one; for words, the first."""
    return values[0] if isinstance(now, str) else min(values, key=lambda v: (abs(v - now), v))


SETTINGS = {
    "tensor": "parallel.tensor",
    "pipeline": "parallel.pipeline",
    "data": "parallel.data",
    "expert": "parallel.expert",
    "context": "parallel.context",
    "context_by": "parallel.context_by",
    "document": "execution.document",
    "loss": "execution.loss",
    "reducer": "optimizer.reducer",
    "sequence_parallel": "parallel.sequence",
    "chunks": "schedule.chunks",
    "schedule": "schedule.use",
    "exchange": "execution.experts.exchange",
    "zero": "parallel.zero",
    "sequence": "sequence",
    "recompute": "memory.recompute",
    "recompute_layers": "memory.recompute_layers",
    "micro_batch": "parallel.micro_batch",
    "batch": "batch",
}
"""Key of each setting in a scenario, below ``workload``."""
DEGREES = ("tensor", "pipeline", "context")  # settings that divide one copy of the model
WHOLE_PASSES = ("gpipe", "1f1b")  # schedules without split backward passes
ONE_CHUNK = {"gpipe": "GPipe", "zb-h1": "ZB-H1", "zb-h2": "ZB-H2", "dualpipe": "DualPipe"}
Rule = tuple[str, str, Callable[[ParallelPlan], bool], Sequence[Any]]


def _rules(model: Model, plan: ParallelPlan) -> list[Rule]:
    """Rules of a plan: setting to change, text of the error, check of a plan, candidate values."""
    if not isinstance(model, Transformer):
        return [*_copies_rules(model, plan), *_batch_rules(plan)]
    return [
        *_sequence_rules(model, plan),
        *_recompute_rules(model, plan),
        *_tensor_rules(model, plan),
        *_context_rules(model, plan),
        *_pipeline_rules(model, plan),
        *_expert_rules(model, plan),
        *_batch_rules(plan),
    ]


def _copies_rules(model: Model, plan: ParallelPlan) -> list[Rule]:
    """Rules for models other than transformers, which are replicated (except tables)."""
    of = "a network of images" if isinstance(model, ImageNetwork) else "a recommender"
    e, images = plan.expert, isinstance(model, ImageNetwork)
    return [
        ("tensor", f"{of} cannot be divided among {plan.tensor} tensor-parallel ranks",
         lambda a: a.tensor == 1, (1,)),
        ("pipeline", f"{of} has no {plan.pipeline} stages", lambda a: a.pipeline == 1, (1,)),
        ("context", f"{of} has no sequence to divide among {plan.context} context-parallel ranks",
         lambda a: a.context == 1, (1,)),
        ("expert", f"{of} has no experts to divide among {e} ranks",
         lambda a: a.expert == 1 or not images, (1,)),
        ("exchange", f"{of} sends no tokens to experts", lambda a: a.exchange == "normal",
         ("normal",)),
        ("schedule", f"combined-1f1b hides the exchange of tokens with experts, and {of} has none",
         lambda a: a.schedule != "combined-1f1b", ("1f1b",)),
        ("expert", f"its embedding tables are divided among all {plan.data} data-parallel "
         f"ranks, not {e}",
         lambda a: images or a.expert == a.data, (plan.data,)),
    ]  # fmt: skip


def _sequence_rules(model: Transformer, plan: ParallelPlan) -> list[Rule]:
    most = model.tokens.positions or plan.sequence
    return [
        ("sequence", f"{plan.sequence} tokens are more than the {most} positions that the model "
         "has learned", lambda a: a.sequence <= most, (most,)),
    ]  # fmt: skip


def _recompute_rules(model: Transformer, plan: ParallelPlan) -> list[Rule]:
    again, parts = plan.recompute_layers, plan.parts
    most = max(plan.stages, default=-(-shared_layers(model, plan) // parts))
    return [
        ("recompute", "selective recomputation recomputes attention scores, and fused attention "
         "saves none",
         lambda a: a.recompute != "selective" or not a.fused_attention, ("none", "full")),
        ("recompute", f"memory.recompute_layers is {again}, which requires recomputation of "
         "complete layers", lambda a: not a.recompute_layers or a.recompute == "full",
         ("full",)),
        ("recompute_layers", f"no pipeline chunk has {again} layers",
         lambda a: a.recompute_layers <= most, range(1, most + 1)),
    ]  # fmt: skip


def _tensor_rules(model: Transformer, plan: ParallelPlan) -> list[Rule]:
    t, heads, part = plan.tensor, model.key_value_heads, plan.sequence // plan.context
    widths = [model.inner] * (model.dense_layers > 0)
    widths += [model.experts.inner] if model.experts else []
    rank = model.adapters.rank if model.adapters else 0
    return [
        ("loss", f"torch's loss needs all logits on one rank, but {t} tensor-parallel ranks "
         "divide the vocabulary",
         lambda a: a.loss == "fused" or a.tensor == 1, ("fused",)),
        ("tensor", f"{t} ranks do not share {model.heads} heads of attention evenly",
         lambda a: model.heads % a.tensor == 0, range(1, model.heads + 1)),
        ("tensor", f"{heads} key heads are not divisible by {t} ranks, nor {t} ranks by {heads} "
         "key heads",
         lambda a: heads % a.tensor == 0 or a.tensor % heads == 0, range(1, model.heads + 1)),
        *(("tensor", f"the feed-forward width {width} is not divisible by {t} ranks",
           lambda a, width=width: width % a.tensor == 0, range(1, model.heads + 1))
          for width in widths),
        ("tensor", f"{t} ranks do not share adapters of rank {rank} evenly",
         lambda a: rank % a.tensor == 0, range(1, t + 1)),
        ("tensor", f"{t} ranks do not share a sequence of {part} tokens evenly",
         lambda a: not a.sequence_parallel or a.sequence // a.context % a.tensor == 0,
         range(1, t + 1)),
    ]  # fmt: skip


def _context_rules(model: Transformer, plan: ParallelPlan) -> list[Rule]:
    c, t = plan.context, plan.tensor
    length = plan.document or plan.sequence
    parts = 2 if plan.balanced and model.attention.causal and c > 1 else 1
    each = ", a part of its beginning and one of its end each" if parts == 2 else ""
    heads, keys = model.heads // t, max(model.key_value_heads // t, 1)
    return [
        ("document", f"a sequence of {plan.sequence} tokens is not divisible into documents of "
         f"{plan.document} tokens", lambda a: not a.document or a.sequence % a.document == 0,
         range(1, min(plan.sequence, 2 * plan.document) + 1)),
        ("context", f"{c} ranks do not share {length} tokens evenly{each}",
         lambda a: a.context == 1 or length % (parts * a.context) == 0, range(1, c + 1)),
        ("context", f"{c} ranks do not share {heads} heads and {keys} of keys evenly, as Ulysses "
         "does", lambda a: a.context_by != "ulysses" or not (heads % a.context or keys % a.context),
         range(1, c + 1)),
        ("context_by", "attention that writes its scores to memory supports only ulysses",
         lambda a: a.context == 1 or a.fused_attention or a.context_by == "ulysses", ("ulysses",)),
    ]  # fmt: skip


def _pipeline_rules(model: Transformer, plan: ParallelPlan) -> list[Rule]:
    p, layers = plan.pipeline, shared_layers(model, plan)
    told = f"{layers} layers" + (", the ends counted as such," if layers > model.layers else "")
    return [
        ("pipeline", f"{p} stages do not share {told} evenly",
         lambda a: bool(a.stages) or layers % a.pipeline == 0, range(1, layers + 1)),
        ("pipeline", f"DualPipe needs an even number of stages, not {p}",
         lambda a: a.schedule != "dualpipe" or not (a.pipeline % 2 or layers % a.pipeline),
         range(1, layers + 1)),
        ("pipeline", f"ZB-V has two chunks on each of {p} stages, which do not share {told} evenly",
         lambda a: a.schedule != "zb-v" or layers % a.parts == 0, range(1, layers + 1)),
        ("chunks", "ZB-V always has two chunks per stage, and needs no schedule.chunks",
         lambda a: a.schedule != "zb-v" or a.chunks == 1, range(1, 2)),
        ("chunks", f"a pipeline of {p} stages has no chunks to interleave",
         lambda a: a.pipeline > 1 or a.chunks == 1, range(1, 2)),
        ("chunks", f"{plan.chunks} chunks on each of {p} stages do not share {told} evenly",
         lambda a: bool(a.stages) or layers % (a.pipeline * a.chunks) == 0, range(1, layers)),
        ("chunks", f"{ONE_CHUNK.get(plan.schedule)} runs one chunk on each stage",
         lambda a: a.schedule not in ONE_CHUNK or a.chunks == 1, range(1, 2)),
        ("zero", f"ZeRO-{plan.zero} shards gradients, but a pipeline accumulates complete "
         "gradients over micro-batches (as in DeepSpeed)",
         lambda a: a.zero < 2 or a.pipeline == 1, range(2)),
    ]  # fmt: skip


def _expert_rules(model: Transformer, plan: ParallelPlan) -> list[Rule]:
    e, experts = plan.expert, model.experts.count if model.experts else 1
    shared = f"{e} ranks do not share {experts} experts evenly"
    if not model.experts:
        shared = f"the model has no experts to divide among {e} ranks"
    by_experts = model.experts is not None and model.experts.chosen_by == "experts"
    return [
        ("expert", shared, lambda a: experts % a.expert == 0, range(1, experts + 1)),
        ("expert", "with chosen_by: experts, experts choose among the tokens of one rank, not of "
         f"{e} ranks",
         lambda a: not by_experts or a.expert == 1, (1,)),
        ("expert", f"{plan.copies} data-parallel ranks cannot be divided into groups of {e} "
         "expert-parallel ranks", lambda a: a.copies % a.expert == 0 and experts % a.expert == 0,
         range(1, plan.copies + 1)),
        ("schedule", "combined-1f1b hides the exchange of tokens between ranks, but "
         f"parallel.expert is {e}",
         lambda a: a.schedule != "combined-1f1b" or a.expert > 1, ("1f1b",)),
        ("exchange", f"parallel.expert is {e}, so no token is exchanged",
         lambda a: a.exchange == "normal" or a.expert > 1, ("normal",)),
    ]  # fmt: skip


def _batch_rules(plan: ParallelPlan) -> list[Rule]:
    p, d = plan.pipeline, plan.data
    once = plan.micro_batch * d
    return [
        ("reducer", "torch's DDP requires parallel.pipeline: 1, parallel.zero: 0 and "
         "optimizer.overlap: true",
         lambda a: a.reducer == "megatron" or (a.pipeline == 1 and not a.zero and a.overlap),
         ("megatron",)),
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
        ("batch", f"{plan.micro_batches} micro-batches of a rank are no even number of two or more "
         f"for each of {p} stages, as DualPipe needs",
         lambda a: a.schedule != "dualpipe" or (a.micro_batches % 2 == 0 and
                                                a.micro_batches >= 2 * p),
         range(2 * once * p, plan.batch + 2 * once * p + 1, 2 * once)),
    ]  # fmt: skip


def shared_layers(model: Transformer, plan: ParallelPlan) -> int:
    """Number of layers divided among stages, with prediction layers and ends that count as layers.

    >>> tiny = Transformer(hidden=8, layers=6, heads=2, vocabulary=10, inner=32)
    >>> shared_layers(tiny, ParallelPlan(batch=8, sequence=16, ends=1))
    8
    """
    return model.layers + model.tokens.predicted + 2 * plan.ends
