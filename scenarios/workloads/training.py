"""``workload: {type: training}``: training of a described model with a parallel plan."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ...models.training.description.description import Adapted, Adapters, Model, Transformer
from ...models.training.description.description_reader import check_adapters
from ...models.training.description.model_zoo import model as named_model
from ...models.training.layer.model_size import model_flop, parameters, trained_parameters
from ...models.training.layer.operations import ContextBy, ExchangeBy, Loss
from ...models.training.layer.precision import MICROSCALING, PRECISIONS, SCALED, Precision
from ...models.training.plan.bubble import BUBBLE, bubble_shares
from ...models.training.plan.expert_choice import ExpertChoice, zipf_choice
from ...models.training.plan.gradients import ddp_buckets
from ...models.training.plan.memory_fit import (
    host_memory,
    peak_memory,
    require_fit,
    require_host_fit,
)
from ...models.training.plan.parallel_plan import (
    BUCKET,
    SETTINGS,
    ParallelPlan,
    Recompute,
    Reducer,
    Schedule,
)
from ...models.training.plan.plan_choices import allowed_plans
from ...models.training.plan.rank_memory import RESERVE, chunk_memory, memory_of_stages
from ...models.training.plan.schedules import turns_of_stage
from ...models.training.plan.stages import chunks_of_stage, describe_layers
from ...models.training.program.hardware_flop import hardware_flop
from ...models.training.program.step_graph import COMPUTED, step_graph
from ...sim.analysis.periods import counted_edges
from ...sim.errors import PlanError, ScenarioError
from ...sim.facts.graph import Graph
from ...sim.facts.metric import Metric
from ...sim.facts.signature import WIDTH
from ...sim.record.distribution import sample_array
from ...sim.run.periodic import Periodic
from ...sim.run.workload import Samples, Size, workload
from ...sim.units import Bytes, FlopRate
from ..config.run_arguments import HostResources, UsesHardware
from ..config.schema import Many, Section
from .iterations import ONE, Iterations, Positive
from .measured_step import MeasuredStep
from .model_form import DescribedModel
from .trace import TOKENS_PER_SECOND

if TYPE_CHECKING:
    from ...sim.facts.system import System
    from ...sim.run.job import Job
    from ...sim.run.result import Result

MFU = Metric(
    "mfu",
    "",
    "Model flop utilization: flop of the model, forward and backward, over iteration_time and the "
    "dense peak of all its GPUs for the element type of its GEMMs.",
    better="higher",
)
HFU = Metric(
    "hfu",
    "",
    "Hardware flop utilization: as mfu, with the flop of all ops, recomputed ones included.",
    better="higher",
)
PEAK_MEMORY = Metric("peak_memory", "B", "Peak memory of the rank that needs most.", (), "lower")


SAMPLES_PER_SECOND = Metric(
    "samples_per_second",
    "1/s",
    "Sequences, or images or other samples, of one iteration over iteration_time, whole job.",
    better="higher",
)


class TrainingParallelism(Section):
    """Parallel plan of a training job: degrees of parallelism, and what ranks share."""

    tensor: Positive = 1
    """Tensor-parallel degree: ranks that share each layer."""
    pipeline: Positive = 1
    """Pipeline-parallel degree: number of stages."""
    data: Positive | None = None
    """Data-parallel degree: copies of the model; by default as many as fit on the GPUs."""
    context: Positive = 1
    """Context-parallel degree: ranks that share each sequence."""
    context_by: ContextBy = "ring"
    """Context parallelism: keys and values go round a ``ring``, are gathered (``all-gather``), or
    ranks exchange tokens for heads during attention (``ulysses``)."""
    balanced: bool = True
    """True if each context-parallel rank has a part of the beginning and of the end of a sequence,
    so that causal attention is balanced (zigzag)."""
    expert: Positive = 1
    """Expert-parallel degree: ranks that share the experts of a layer, among the data-parallel and
    context-parallel ranks."""
    layers: Annotated[list[Positive], Field(min_length=1)] | None = None
    """Number of layers of each pipeline stage, if they differ."""
    sequence: bool = False
    """True for sequence parallelism: tensor-parallel ranks also share norms and dropouts."""
    micro_batch: Positive = 1
    """Micro-batch size: number of sequences that a rank processes at a time."""
    zero: Literal[0, 1, 2, 3] = 0
    """ZeRO stage: data-parallel ranks shard the optimizer (1), gradients (2), weights (3)."""


class PipelineSchedule(Section):
    """Order of micro-batches in the pipeline."""

    use: Schedule = "1f1b"
    """Pipeline schedule. ``gpipe``: all forward passes first. ``1f1b``: one forward, one backward.
    ``combined-1f1b``: a forward pass runs next to a backward pass, so that one computes while the
    other exchanges tokens with experts; needs more memory. ``zb-h1``: 1F1B with weight gradients
    in the bubble. ``zb-h2``: the same with twice the forward passes ahead; no bubble, nearly twice
    the activations. ``zb-v``: two chunks per stage in a V; no bubble with 1F1B's memory.
    ``dualpipe``: micro-batches from both ends; each stage holds two parts of the model."""
    chunks: Positive = 1
    """Model chunks per stage; more than one is an interleaved schedule."""
    ends: Annotated[int, Field(ge=0)] = 0
    """Number of layers that the embedding and the output layer each count as, when layers are
    distributed over stages."""


class TensorScales(Section):
    """Scales of fp8 and fp4 numbers, if they differ from those of ``precision``."""

    block: Annotated[int, Field(ge=0)] | None = None
    """Block size: numbers in a row or column that share a scale; 0 for one scale per tensor."""
    type: Literal["fp32", "e4m3", "e8m0"] | None = None
    """Element type of a scale: 4 B (``fp32``) or 1 B."""
    square: bool | None = None
    """True if block x block weights share one scale."""
    current: bool | None = None
    """True for current scaling: a separate pass finds the largest number of a tensor first. False
    for delayed or block scaling."""

    def chosen(self) -> dict[str, Any]:
        """Fields of ``Scales`` that are set.

        >>> TensorScales(block=128, type="fp32").chosen()
        {'block': 128, 'dtype': 'fp32'}
        """
        said = self.model_dump(exclude_none=True)
        return {"dtype" if key == "type" else key: value for key, value in said.items()}


class ElementTypes(Section):
    """Element types of classes of tensors, if they differ from those of ``precision``."""

    weights: Literal["fp8", "bf16", "fp16", "fp32"] | None = None
    """Type of weights in memory and in all-gathers."""
    activations: Literal["bf16", "fp16", "fp32"] | None = None
    """Type of activations in memory and between ranks, also in attention and the output layer."""
    products: Literal["fp4", "fp8", "bf16", "fp16", "fp32"] | None = None
    """Type of the operands of the layers' GEMMs."""
    gradients: Literal["bf16", "fp16", "fp32"] | None = None
    """Type in which gradients are accumulated over micro-batches."""
    communication: Literal["fp8", "bf16", "fp16", "fp32"] | None = None
    """Type of gradients on the network."""
    master: Literal["bf16", "fp16", "fp32"] | None = None
    """Type of the optimizer's master weights; there are none if weights have this type."""
    frozen: Literal["fp4", "fp8", "bf16", "fp16", "fp32"] | None = None
    """Type of weights frozen next to adapters; by default that of ``weights``."""
    moments: Literal["fp8", "bf16", "fp16", "fp32"] | None = None
    """Type of the optimizer's two moments."""
    dispatch: Literal["fp4", "fp8", "bf16", "fp16", "fp32"] | None = None
    """Type of tokens sent to experts, and of their gradients; results have the type of
    activations."""
    scales: TensorScales = TensorScales()
    """Scales of fp8 and fp4 tensors, if they differ from those of the precision."""

    def chosen(self) -> dict[str, Any]:
        """Element types that differ from those of the precision.

        >>> ElementTypes(dispatch="fp8").chosen()
        {'dispatch': 'fp8'}
        """
        return self.model_dump(exclude_none=True, exclude={"scales"})


class TrainedExperts(Section):
    """Distribution of tokens over experts (set at most one of its keys), and their exchange."""

    imbalance: Annotated[float, Field(ge=1)] = 1.0
    """Load imbalance: tokens of the busiest rank's experts over the mean."""
    zipf: Annotated[float, Field(ge=0)] | None = None
    """Zipf exponent s: the k-th most chosen expert gets tokens in proportion to k^-s; 0 for equal
    shares. Experts are assigned to ranks in turn."""
    recorded: Many[Annotated[float, Field(ge=0)]] | None = None
    """Counted tokens of each expert, in the order of experts; each rank has a block of consecutive
    experts."""
    exchange: ExchangeBy = "normal"
    """Token exchange: ``normal`` is the library's all-to-all, for which the host must know the
    counts; ``low-latency``: each GPU writes directly into the memory of the others (DeepEP's
    low-latency kernels)."""


class TrainedAdapters(Section):
    """Low-rank adapters (LoRA), trained next to frozen weights."""

    rank: Positive
    """Rank of the adapters."""
    of: Annotated[list[Adapted], Field(min_length=1)]
    """Adapted GEMMs of each layer: ``query-key-value`` (one GEMM, one adapter),
    ``attention-output``, ``feed-forward-in`` (with its gate), ``feed-forward-out``."""


class TrainingMemory(Section):
    """Memory of GPUs and hosts: how it is saved, and what happens to a plan that does not fit."""

    recompute: Recompute = "none"
    """Activation recomputation in the backward pass: ``none``, attention scores (``selective``), or
    complete layers (``full``)."""
    recompute_layers: Positive | None = None
    """With ``full``: number of recomputed layers per stage and chunk, the first ones, as in
    Megatron-LM's method ``block``; by default all."""
    offload: Literal["none", "optimizer"] = "none"
    """``optimizer``: optimizer state and master weights are on the host, which updates them;
    gradients and weights are copied between host and GPU. ``none``: everything is on the GPU."""
    reserve: Bytes = RESERVE
    """Memory of each GPU reserved for the runtime and the communication library."""
    must_fit: bool = True
    """True if a plan that does not fit into memory is an error."""
    when_full: Literal["wait", "refuse"] = "wait"
    """If GPU memory is a capacity that other jobs hold: ``wait`` for it, or ``refuse``, which ends
    the run."""


class TrainingOptimizer(Section):
    """Trained parameters, and how their gradients are reduced."""

    reducer: Reducer = "megatron"
    """Gradient reducer: ``megatron`` computes gradients in their buckets; ``ddp`` (torch's
    DistributedDataParallel) copies each into its bucket and back, and broadcasts the statistics of
    image norms before each iteration."""
    bucket: Positive | None = None
    """Bucket size: number of parameters whose gradients are reduced together. In a pipeline, only
    the first chunk of the first stage has more than one bucket. By default 40 million, or with
    ``reducer: ddp`` 25 MiB, the first bucket 1 MiB."""
    overlap: bool = True
    """True if gradients are reduced while others are computed."""
    gather_ahead: bool = True
    """True if weights sharded by ZeRO 1 or 2 are gathered, in buckets, during the next iteration's
    first forward pass; False if all are gathered after the update."""
    adapters: TrainedAdapters | None = None
    """Adapters (LoRA) to train in place of the model's weights, which are then frozen."""

    def bucket_sizes(self, precision: Precision) -> tuple[int, int]:
        """Parameters of the first gradient bucket (0 if as the others), and of each other one.

        >>> TrainingOptimizer(bucket=1000).bucket_sizes(PRECISIONS["bf16"])
        (0, 1000)
        """
        own = ddp_buckets(precision) if self.reducer == "ddp" else (0, BUCKET)
        return (0, self.bucket) if self.bucket else own


class TrainingExecution(Section):
    """Kernels of a rank, experts of its layers, and how ops are dispatched."""

    attention: Literal["fused", "written"] = "fused"
    """Attention kernel: ``fused`` (flash attention), or ``written`` with scores in memory."""
    document: Annotated[int, Field(ge=0)] = 0
    """Tokens of each document packed into a sequence; attention is limited to a document. 0 for one
    document per sequence."""
    experts: TrainedExperts = TrainedExperts()
    """Distribution of tokens over experts, and how they are exchanged."""
    loss: Loss = "fused"
    """Cross-entropy: ``fused`` is one op each way; ``written`` uses the ops of torch, if ranks do
    not share the vocabulary."""
    detail: Literal["ops", "layers"] = "ops"
    """Detail of the graph: ``ops``, or ``layers`` with one forward and one backward op per layer,
    for a layer profile."""
    hosts: Literal["ahead", "threads"] | None = None
    """Dispatch: ``threads``: a host thread per rank dispatches ops one after another (times
    ``operator`` and ``exchange`` of the host), and waits for its GPU after each message of another
    stage and after the gradient norm. ``ahead``: ops are dispatched before the GPU needs them, as
    with CUDA graphs. By default ``threads`` if the host has ``operator`` and ``detail`` is
    ``ops``."""

    def has_host_threads(self, host: HostResources) -> bool:
        """True if a host thread of each rank dispatches its ops.

        >>> TrainingExecution(hosts="threads").has_host_threads(HostResources())
        True
        """
        if self.hosts is not None:
            return self.hosts == "threads"
        return host.dispatches and self.detail == "ops"


SEARCHED = (
    "tensor", "pipeline", "expert", "sequence_parallel", "chunks", "micro_batch", "zero",
    "recompute",
)  # fmt: skip
"""Fields of a plan that a search over plans chooses."""
SCALED_BY_KERNELS = 128
"""Smallest number of products per scale for which kernels scale partial sums in registers, so that
tensor cores need not support it (DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.2)."""
ALONE = TrainingParallelism()
ONE_BY_ONE = PipelineSchedule()
AS_PRECISION_SAYS = ElementTypes()
USUAL_MEMORY = TrainingMemory()
USUAL_OPTIMIZER = TrainingOptimizer()
USUAL_EXECUTION = TrainingExecution()


@workload("training")
class TrainingWorkload(UsesHardware, Periodic):
    """Training of a described model with a parallel plan.

    Parameters
    ----------
    model : str or mapping
        Name of a bundled model (``llama3-8b``), path of a Hugging Face ``config.json``, or the
        description itself, key by key.
    batch : int
        Global batch size: sequences, images or samples of an iteration.
    sequence : int or None
        Sequence length in tokens; None if the model has no sequences or a length of its own.
    parallel : TrainingParallelism
        How ranks share the model and the batch.
    schedule : PipelineSchedule
        Order of micro-batches in the pipeline.
    precision : str
        ``bf16``, ``fp16`` or ``fp32``. For GEMMs of layers, with weights in bf16: ``fp8`` (one
        scale per tensor), ``mxfp8`` and ``mxfp4`` (per 32 numbers) or ``nvfp4`` (per 16, and per
        tensor).
    types : ElementTypes
        Element types and scales of classes of tensors that differ from the precision.
    memory : TrainingMemory
        Recomputation, offloading to the host, and whether the plan must fit.
    optimizer : TrainingOptimizer
        Trained parameters, and how their gradients are reduced.
    execution : TrainingExecution
        Kernels of a rank, experts of its layers, and how ops are dispatched.
    iterations : Iterations
        Numbers of warm-up and of counted iterations.
    measured : MeasuredStep or None
        Your own measured iteration. The times of all ops on GPUs are multiplied by one factor that
        reproduces it, in all variants.
    """

    metrics: tuple[Metric, ...] = (
        *(*Periodic.metrics, TOKENS_PER_SECOND, SAMPLES_PER_SECOND, MFU, HFU, BUBBLE),
        PEAK_MEMORY,
    )
    renamed_settings: ClassVar[Mapping[str, str]] = {
        "micro_batch": "parallel.micro_batch",
        "zero": "parallel.zero",
        "scales": "types.scales",
        **{key: f"memory.{key}" for key in TrainingMemory.allowed()},
        **{key: f"optimizer.{key}" for key in TrainingOptimizer.allowed()},
        **{key: f"execution.{key}" for key in TrainingExecution.allowed() if key != "experts"},
        "imbalance": "execution.experts.imbalance",
        "exchange": "execution.experts.exchange",
        "routing": "execution.experts",
        **{f"model.{old}": f"model.{new}" for old, new in Transformer.renamed_settings.items()},
    }

    def __init__(
        self,
        *,
        model: str | DescribedModel,
        batch: Positive,
        sequence: Positive | None = None,
        parallel: TrainingParallelism = ALONE,
        schedule: PipelineSchedule = ONE_BY_ONE,
        precision: Literal["bf16", "fp8", "mxfp8", "nvfp4", "mxfp4", "fp16", "fp32"] = "bf16",
        types: ElementTypes = AS_PRECISION_SAYS,
        memory: TrainingMemory = USUAL_MEMORY,
        optimizer: TrainingOptimizer = USUAL_OPTIMIZER,
        execution: TrainingExecution = USUAL_EXECUTION,
        iterations: Iterations = ONE,
        measured: MeasuredStep | None = None,
    ):
        self.name = model if isinstance(model, str) else "described here"
        self.model = _with_adapters(named_model(model), optimizer.adapters)
        self.parallel, self.execution = parallel, execution
        self.reserve, self.must_fit, self.measured = memory.reserve, memory.must_fit, measured
        self.waits = memory.when_full == "wait"
        self.warm_up, self.counted = iterations.warm_up, iterations.measure
        self.times = iterations.warm_up + (iterations.measure or 1)
        chosen = _precision(self.model, precision, types)
        first_bucket, bucket = optimizer.bucket_sizes(chosen)
        experts = execution.experts
        self._written_plan = ParallelPlan(
            batch=batch,
            sequence=_sequence_length(self.model, sequence),
            micro_batch=parallel.micro_batch,
            tensor=parallel.tensor,
            pipeline=parallel.pipeline,
            data=parallel.data or 1,
            context=parallel.context,
            context_by=parallel.context_by,
            balanced=parallel.balanced,
            document=execution.document,
            expert=parallel.expert,
            sequence_parallel=parallel.sequence,
            chunks=schedule.chunks,
            schedule=schedule.use,
            ends=schedule.ends,
            zero=parallel.zero,
            recompute=memory.recompute,
            recompute_layers=memory.recompute_layers or 0,
            bucket=bucket,
            first_bucket=first_bucket,
            reducer=optimizer.reducer,
            overlap=optimizer.overlap,
            gather_ahead=optimizer.gather_ahead,
            fused_attention=execution.attention == "fused",
            loss=execution.loss,
            imbalance=experts.imbalance,
            routing=_expert_choice(self.model, experts),
            exchange=experts.exchange,
            precision=chosen,
            offload=memory.offload == "optimizer",
            stages=tuple(parallel.layers or ()),
            whole_layers=execution.detail == "layers",
        )

    @cached_property
    def plan(self) -> ParallelPlan:
        """Its parallel plan, with one copy of the model unless the number of copies is given."""
        threads = self.execution.has_host_threads(self.host)
        return replace(self._written_plan, host_threads=threads)

    def size(self) -> Size | None:
        """Return None: the size depends on the number of GPUs."""
        return None

    def plan_on(self, gpus: int) -> ParallelPlan:
        """Parallel plan on a number of GPUs; data parallelism uses all of them by default.

        Raises
        ------
        PlanError
            The number of GPUs is not a multiple of the GPUs of one model copy.
        """
        if self.parallel.data is not None:
            return self.plan
        one = self.plan.ranks_of_a_copy
        if gpus < one or gpus % one:
            fits = self.plan.degree_that_fills(self.model, gpus)
            cures = [fits] if fits else []
            if self.plan.has_possible_degrees(self.model) or not fits:
                cures.insert(0, f"{max(round(gpus / one), 1) * one} GPUs")
            raise PlanError(
                f"workload.parallel: {gpus} GPUs are not a multiple of {self._degrees}; use "
                f"{', or '.join(cures)}"
            )
        return replace(self.plan, data=gpus // one)

    @property
    def _degrees(self) -> str:
        """Text with the degrees of parallelism within one copy of the model."""
        plan = self.plan
        context = f" x context {plan.context}" if plan.context > 1 else ""
        return f"tensor {plan.tensor} x pipeline {plan.pipeline}{context}"

    def start(self, job: Job) -> Graph:
        """Graph of its iterations.

        Raises
        ------
        PlanError
            The plan breaks a rule or does not fit into memory.
        ScenarioError
            The GPU does not support the precision.
        """
        gpus = len(job.on["gpu"])
        model, plan = self.model, self.plan_on(gpus)
        self._require_precision(plan)
        plan.check(model, gpus if self.parallel.data is None else 0)
        if self.must_fit:
            self._require_fit(plan)
        graph = step_graph(model, plan, self.times, f"training {self.name}")
        return replace(graph, facts=self._facts(model, plan, graph.facts[COMPUTED]))

    def holds(self, job: Job, system: System) -> Mapping[str, int]:
        """Bytes that it holds of each GPU's memory, if that is a capacity.

        This is the peak of each rank, since PyTorch's allocator returns no memory before the
        process ends.
        """
        gpus = job.on["gpu"]
        rooms = [system.part(system.number(name), "memory") for name in gpus]
        if min(rooms, default=-1) < 0:
            return {}
        plan = self.plan_on(len(gpus))
        each = [math.ceil(one.peak) for one in memory_of_stages(self.model, plan, self.reserve)]
        of_stage = plan.tensor * plan.copies
        return {
            system.components[room].name: each[rank // of_stage]
            for rank, room in enumerate(rooms[: plan.ranks])
        }

    def plans(self, gpus: int, node: int, kept: Collection[str]) -> Iterator[Mapping[str, Any]]:
        """Settings of every valid parallel plan of the model on a number of GPUs.

        Paths begin below ``workload``, such as ``parallel.tensor``.

        Parameters
        ----------
        gpus : total number of GPUs
        node : number of GPUs per machine
        kept : paths of settings that the search does not change
        """
        fields = {
            f for f, path in SETTINGS.items() if any(_is_part_of(path, name) for name in kept)
        }
        if self.parallel.data is not None:
            fields.add("data")
        model = self.model
        if not isinstance(model, Transformer):
            raise ScenarioError(
                f"workload.model: {self.name} is not a transformer, and plans are searched for "
                "transformers only; vary settings by name"
            )
        searched = [f for f in SEARCHED if f not in fields and (f != "expert" or model.experts)]
        for plan in allowed_plans(model, self.plan, gpus, node, fields):
            yield {SETTINGS[f]: getattr(plan, f) for f in searched}

    def _require_precision(self, plan: ParallelPlan) -> None:
        if not self.gpu or not (lacks := missing_gpu_support(plan.precision, self.gpu)):
            return
        possible = [
            name for name, one in PRECISIONS.items() if not missing_gpu_support(one, self.gpu)
        ]
        products = WIDTH[plan.precision.products]
        nearest = min(possible, key=lambda name: abs(WIDTH[PRECISIONS[name].products] - products))
        what, cure = lacks
        raise ScenarioError(f"workload.precision: {what}; use {nearest}, or write {cure}")

    def _require_fit(self, plan: ParallelPlan) -> None:
        known = None if self.host.memory is None else (self.host.memory, self.host.gpus)
        if "memory" in self.gpu:
            require_fit(self.model, plan, self.gpu["memory"], self.reserve, known)
        require_host_fit(self.model, plan, self.host.memory, self.host.gpus, self.reserve)

    def _facts(self, model: Model, plan: ParallelPlan, computed: object) -> Mapping[str, object]:
        """Facts about the iterations that are known without running them."""
        most = peak_memory(model, plan, self.reserve)
        return {
            "model": self.name,
            "tensor x pipeline x context x data": " x ".join(
                str(n) for n in (plan.tensor, plan.pipeline, plan.context, plan.data)
            ),
            "micro_batches": plan.micro_batches,
            **({"trained": told} if (told := _trained_parameters_text(model)) else {}),
            **({"hosts": "a thread of each rank's"} if plan.host_threads else {}),
            "peak_memory": f"{most.peak / 1e9:.3g} GB ({most.peak / 2**30:.3g} GiB) on stage "
            f"{most.stage}, {most.when()}",
            **({"host_memory": told} if (told := self._host_memory(plan)) else {}),
            "stages": tuple(
                {
                    "first": one.stage * plan.tensor * plan.copies,
                    "layers": describe_layers(chunks_of_stage(model, plan, one.stage)),
                    "memory": one.parts,
                    "chunks": tuple(
                        asdict(chunk_memory(chunk, plan))
                        for chunk in chunks_of_stage(model, plan, one.stage)
                    ),
                    "room": self.gpu.get("memory"),
                }
                for one in memory_of_stages(model, plan, self.reserve)
            ),
            "pipeline": {
                "stages": plan.pipeline,
                "schedule": plan.schedule,
                "computed": computed,
                "ranks": plan.tensor * plan.copies,
                "turns": tuple(
                    turns_of_stage(plan.schedule, s, plan.pipeline, plan.micro_batches, plan.chunks)
                    for s in range(plan.pipeline)
                ),
            },
        }

    def _host_memory(self, plan: ParallelPlan) -> str:
        """Host memory per machine that the offloaded optimizer needs, as text; "" for none."""
        if not plan.offload:
            return ""
        need = host_memory(self.model, plan, self.host.gpus, self.reserve)
        return f"{need / 1e9:.3g} GB ({need / 2**30:.3g} GiB) of each machine"

    def measure(self, result: Result) -> Mapping[str, Samples]:
        """Time of each counted iteration, and the metrics derived from it."""
        samples = dict(super().measure(result))
        plan = replace(self.plan, data=result.ranks // self.plan.ranks_of_a_copy)
        time = sample_array(samples["iteration_time"])
        samples["samples_per_second"] = plan.batch / time
        if isinstance(self.model, Transformer) and self.model.tokens.patches is None:
            samples["tokens_per_second"] = plan.batch * plan.sequence / time
        edges = counted_edges(result, self.warm_up, self.counted)
        bubble = bubble_shares(result, edges, plan.pipeline)
        if bubble is not None:
            samples["bubble"] = bubble
        useful, done, peak_bytes = _flop_and_peak_memory(self.model, plan, self.reserve)
        samples["peak_memory"] = np.array([peak_bytes])
        peak = self._peak(plan)
        if peak is not None:
            samples["mfu"] = useful / (time * plan.ranks * peak)
            samples["hfu"] = done / (time * plan.ranks * peak)
        return samples

    def _peak(self, plan: ParallelPlan) -> FlopRate | None:
        peak: FlopRate | None = self.gpu.get("peaks", {}).get(plan.precision.products)
        return peak


def _sequence_length(model: Model, given: int | None) -> int:
    """Sequence length in tokens, from the scenario or the model.

    Raises
    ------
    ScenarioError
        Both give it, or neither does.
    """
    own = model.own_sequence
    if given is None and own is None:
        raise ScenarioError("workload.sequence: is missing; write the tokens of a sequence")
    if given is not None and own is not None:
        raise ScenarioError("workload.sequence: the model has its own sequence length; remove it")
    return given or own or 1


def _precision(model: Model, name: str, types: ElementTypes) -> Precision:
    """Element types of all classes of tensors, and their scales.

    Raises
    ------
    ScenarioError
        A setting does not apply to the model, there are scales without fp8 or fp4, or fp4 without
        suitable scales.
    """
    if types.dispatch and not (isinstance(model, Transformer) and model.experts):
        raise ScenarioError("workload.types.dispatch: the model has no experts; remove it")
    if types.frozen and not (isinstance(model, Transformer) and model.adapters):
        raise ScenarioError(
            "workload.types.frozen: all weights are trained; remove it, or write optimizer.adapters"
        )
    said, scales = replace(PRECISIONS[name], **types.chosen()), types.scales.chosen()
    found = replace(said, scales=replace(said.scales, **scales))
    if scales and not set(found.types) & set(SCALED):
        raise ScenarioError(
            f"workload.types.scales: no tensor is in {' or '.join(SCALED)}; write precision: fp8, "
            "or remove it"
        )
    if found.products == "fp4" and not 0 < found.scales.block <= MICROSCALING.block:
        raise ScenarioError(
            f"workload.types.scales.block: is {found.scales.block}, but GEMMs in fp4 need one "
            "scale per 16 or 32 numbers; write 16 (precision: nvfp4) or 32 (mxfp4)"
        )
    return found


def missing_gpu_support(precision: Precision, gpu: Mapping[str, Any]) -> tuple[str, str] | None:
    """What a GPU lacks for a precision, and the setting that adds it; None for nothing.

    >>> missing_gpu_support(PRECISIONS["fp8"], {"peaks": {"bf16": 1e15}})
    ('the peak of this GPU in fp8 is unknown', 'cluster.node.gpu.peaks.fp8')
    """
    for dtype in (precision.products, precision.activations):
        if gpu.get("peaks", {}).get(dtype) is None:
            path = f"cluster.node.gpu.peaks.{dtype}"
            return f"the peak of this GPU in {dtype} is unknown", path
    block = precision.scales.block if precision.products in SCALED else 0
    if 0 < block < SCALED_BY_KERNELS and block < (gpu.get("scaled_block") or SCALED_BY_KERNELS):
        return (
            f"tensor cores of this GPU are not known to support one scale per {block} numbers",
            f"cluster.node.gpu.scaled_block: {block}",
        )
    return None


def _with_adapters(model: Model, adapters: TrainedAdapters | None) -> Model:
    """Model with the adapters of a scenario.

    Raises
    ------
    ScenarioError
        The model does not have the adapted layers, or has adapters already.
    """
    if adapters is None:
        return model
    if not isinstance(model, Transformer):
        raise ScenarioError("workload.optimizer.adapters: need a transformer; remove them")
    if model.adapters:
        raise ScenarioError(
            "workload.optimizer.adapters: are also in the model; remove one of them"
        )
    found = replace(model, adapters=Adapters(adapters.rank, tuple(adapters.of)))
    check_adapters(found, "workload.optimizer.adapters")
    return found


def _expert_choice(model: Model, experts_section: TrainedExperts) -> ExpertChoice | None:
    """Distribution of tokens over experts; None for a uniform one.

    Raises
    ------
    ScenarioError
        The model has no experts or another number of them, or two distributions are given.
    """
    where = "workload.execution.experts"
    given = [k for k in ("imbalance", "zipf", "recorded") if k in experts_section.model_fields_set]
    if experts_section.zipf is None and experts_section.recorded is None:
        return None
    experts = model.experts if isinstance(model, Transformer) else None
    if experts is None:
        raise ScenarioError(f"{where}: the model has no experts; remove it")
    if experts_section.imbalance != 1 or None not in (
        experts_section.zipf,
        experts_section.recorded,
    ):
        raise ScenarioError(f"{where}: has {' and '.join(given)}; keep one of them")
    if experts_section.zipf is not None:
        return zipf_choice(experts.count, experts_section.zipf)
    counts = experts_section.recorded or ()
    if len(counts) != experts.count or not sum(counts):
        raise ScenarioError(
            f"{where}.recorded: has {len(counts)} numbers, and the model "
            f"{experts.count} experts; write one for each, not all of them 0"
        )
    return ExpertChoice(tuple(counts), round_robin=False)


def _trained_parameters_text(model: Model) -> str:
    """Text about the number of parameters that adapters train; "" if all are trained."""
    if not (isinstance(model, Transformer) and model.adapters):
        return ""
    return f"{trained_parameters(model):,} of {parameters(model):,} parameters (adapters)"


def _is_part_of(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}.")


@lru_cache(maxsize=64)
def _flop_and_peak_memory(
    model: Model, plan: ParallelPlan, reserve: Bytes
) -> tuple[float, float, Bytes]:
    """Flop of the model and of all ops of an iteration, and peak memory of a rank in B."""
    useful = plan.batch * model_flop(model, plan.sequence, plan.document)
    return useful, hardware_flop(model, plan), peak_memory(model, plan, reserve).peak
