"""``workload: {type: training}``: a model from its description, trained by a parallel plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from ...models.memory.fit import peak_memory, require_fit
from ...models.memory.rank_memory import RESERVE
from ...models.training.description import Transformer
from ...models.training.hardware_flop import hardware_flop
from ...models.training.model_size import model_flop
from ...models.training.model_zoo import model as named_model
from ...models.training.parallel_plan import BUCKET, ParallelPlan, Recompute, Schedule
from ...models.training.precision import PRECISIONS
from ...models.training.schedules import turns_of_stage
from ...models.training.step_graph import step_graph
from ...sim.errors import ScenarioError
from ...sim.graph import Graph
from ...sim.metric import Metric
from ...sim.periodic import Periodic
from ...sim.units import Bytes, FlopRate
from ...sim.workload import Samples, Size, workload
from ..config.given import GpuSettings
from ..config.schema import Section
from .iterations import ONE, Iterations, Positive
from .trace import NO_GPU, TOKENS_PER_SECOND

if TYPE_CHECKING:
    from ...sim.job import Job
    from ...sim.result import Result

MFU = Metric(
    "mfu",
    "",
    "Model flop utilization: flop of the model, forward and backward, over iteration_time and the "
    "dense peak of all its GPUs for the element type of its products.",
    better="higher",
)
HFU = Metric(
    "hfu",
    "",
    "Hardware flop utilization: flop of all ops that run, those run again too, likewise.",
    better="higher",
)
PEAK_MEMORY = Metric(
    "peak_memory", "B", "Memory of the rank that needs most, when it needs most.", (), "lower"
)


class TrainingParallelism(Section):
    """Degrees of parallelism of a training job."""

    tensor: Positive = 1
    """Ranks that share each layer."""
    pipeline: Positive = 1
    """Stages, a block of layers each."""
    data: Positive | None = None
    """Copies of the model, each with its own sequences; as many as there are GPUs for, unless
    said."""
    expert: Positive = 1
    """Data-parallel ranks that share the experts of a layer."""
    sequence: bool = False
    """Whether tensor-parallel ranks share norms and dropouts, too, by tokens."""


class PipelineSchedule(Section):
    """Order of micro-batches in the pipeline."""

    use: Schedule = "1f1b"
    """``1f1b`` (as many forward ahead as there are stages behind), or ``gpipe`` (all forward
    first)."""
    chunks: Positive = 1
    """Blocks of layers on each stage; more than one interleaves them."""


ALONE = TrainingParallelism()
ONE_BY_ONE = PipelineSchedule()


@workload("training")
class TrainingWorkload(Periodic):
    """A model from its description, trained by a parallel plan.

    Parameters
    ----------
    model : str
        A name of the zoo (``llama3-8b``), or the path of a Hugging Face ``config.json``.
    batch : int
        Sequences of an iteration, of the whole job.
    sequence : int
        Tokens of each.
    micro_batch : int
        Sequences that a rank takes at a time.
    parallel : TrainingParallelism
        How ranks share the model.
    schedule : PipelineSchedule
        Order of micro-batches in the pipeline.
    zero : int
        Stage of ZeRO: 1 shares the optimizer among data-parallel ranks, 2 gradients, 3 weights.
    recompute : str
        What is computed again in the backward pass: ``none``, attention's core (``selective``), or
        whole layers (``full``).
    precision : str
        ``bf16``; ``fp8`` for products of layers, weights staying in bf16; ``fp16``.
    attention : str
        ``fused`` (flash attention), or ``written`` where scores go through memory.
    imbalance : float
        Tokens of the busiest rank's experts, over the mean.
    bucket : int
        Parameters whose gradients are reduced together.
    overlap : bool
        Whether gradients are reduced while others are computed.
    reserve : Bytes
        Memory of each GPU that the runtime and the communication library take.
    must_fit : bool
        Whether a plan that does not fit into memory is an error.
    iterations : Iterations
        How many, and which count.
    gpu : GpuSettings
        That it runs on.
    """

    metrics: tuple[Metric, ...] = (*Periodic.metrics, TOKENS_PER_SECOND, MFU, HFU, PEAK_MEMORY)

    def __init__(
        self,
        *,
        model: str,
        batch: Positive,
        sequence: Positive,
        micro_batch: Positive = 1,
        parallel: TrainingParallelism = ALONE,
        schedule: PipelineSchedule = ONE_BY_ONE,
        zero: Literal[0, 1, 2, 3] = 0,
        recompute: Recompute = "none",
        precision: Literal["bf16", "fp8", "fp16"] = "bf16",
        attention: Literal["fused", "written"] = "fused",
        imbalance: Annotated[float, Field(ge=1)] = 1.0,
        bucket: Positive = BUCKET,
        overlap: bool = True,
        reserve: Bytes = RESERVE,
        must_fit: bool = True,
        iterations: Iterations = ONE,
        gpu: GpuSettings = NO_GPU,
    ):
        self.model, self.parallel, self.gpu = model, parallel, gpu.settings
        self.reserve, self.must_fit = reserve, must_fit
        self.warm_up, self.counted = iterations.warm_up, iterations.measure
        self.times = iterations.warm_up + (iterations.measure or 1)
        self.plan = ParallelPlan(
            batch=batch,
            sequence=sequence,
            micro_batch=micro_batch,
            tensor=parallel.tensor,
            pipeline=parallel.pipeline,
            data=parallel.data or 1,
            expert=parallel.expert,
            sequence_parallel=parallel.sequence,
            chunks=schedule.chunks,
            schedule=schedule.use,
            zero=zero,
            recompute=recompute,
            bucket=bucket,
            overlap=overlap,
            fused_attention=attention == "fused",
            imbalance=imbalance,
            precision=PRECISIONS[precision],
        )

    def size(self) -> Size | None:
        """Unknown before it is known how many GPUs there are."""
        return None

    def plan_on(self, gpus: int) -> ParallelPlan:
        """Plan on so many GPUs: as many copies of the model as they hold, unless that was said.

        Raises
        ------
        ScenarioError
            No whole number of copies.
        """
        if self.parallel.data is not None:
            return self.plan
        one = self.plan.tensor * self.plan.pipeline
        if gpus < one or gpus % one:
            near = max(round(gpus / one), 1) * one
            raise ScenarioError(
                f"workload.parallel: {gpus} GPUs are no multiple of tensor {self.plan.tensor} x "
                f"pipeline {self.plan.pipeline}; take {near} GPUs, or say parallel.data"
            )
        return replace(self.plan, data=gpus // one)

    def start(self, job: Job) -> Graph:
        """The graph of its iterations.

        Raises
        ------
        ScenarioError
            A plan that breaks a rule or does not fit into memory; a precision that the GPU lacks.
        """
        model = named_model(self.model)
        plan = self.plan_on(len(job.on["gpu"]))
        self._require_precision(plan)
        graph = step_graph(model, plan, self.times, f"training {self.model}")
        if self.must_fit and "memory" in self.gpu:
            require_fit(model, plan, self.gpu["memory"], self.reserve)
        return replace(graph, facts=self._facts(model, plan))

    def _require_precision(self, plan: ParallelPlan) -> None:
        dtype = plan.precision.products
        if self.gpu and self.gpu.get(f"peak_{dtype}") is None:
            known = [k.removeprefix("peak_") for k in self.gpu if k.startswith("peak_")]
            raise ScenarioError(
                f"workload.precision: nobody says how quick this GPU is in {dtype}; take one of "
                f"{', '.join(known)}, or write cluster.node.gpu.peak_{dtype}"
            )

    def _facts(self, model: Transformer, plan: ParallelPlan) -> Mapping[str, object]:
        """What is known of the iterations without running them."""
        most = peak_memory(model, plan, self.reserve)
        return {
            "model": self.model,
            "tensor x pipeline x data": f"{plan.tensor} x {plan.pipeline} x {plan.data}",
            "micro_batches": plan.micro_batches,
            "peak_memory": f"{most.peak / 1e9:.3g} GB ({most.peak / 2**30:.3g} GiB) on stage "
            f"{most.stage}, {most.when()}",
            "pipeline": {
                "stages": plan.pipeline,
                "ranks": plan.tensor * plan.data,
                "turns": tuple(
                    turns_of_stage(plan.schedule, s, plan.pipeline, plan.micro_batches, plan.chunks)
                    for s in range(plan.pipeline)
                ),
            },
        }

    def measure(self, result: Result) -> Mapping[str, Samples]:
        """The time of each iteration that counts, and what follows from it."""
        samples = dict(super().measure(result))
        plan = replace(self.plan, data=result.ranks // (self.plan.tensor * self.plan.pipeline))
        time = samples["iteration_time"]
        samples["tokens_per_second"] = plan.batch * plan.sequence / time
        useful, done, peak_bytes = _constants(self.model, plan, self.reserve)
        samples["peak_memory"] = np.array([peak_bytes])
        peak = self._peak(plan)
        if peak is not None:
            samples["mfu"] = useful / (time * plan.ranks * peak)
            samples["hfu"] = done / (time * plan.ranks * peak)
        return samples

    def _peak(self, plan: ParallelPlan) -> FlopRate | None:
        peak: FlopRate | None = self.gpu.get(f"peak_{plan.precision.products}")
        return peak


@lru_cache(maxsize=64)
def _constants(name: str, plan: ParallelPlan, reserve: Bytes) -> tuple[float, float, Bytes]:
    """Flop of the model and of all ops of an iteration, and the peak of memory."""
    model = named_model(name)
    useful = plan.batch * model_flop(model, plan.sequence)
    return useful, hardware_flop(model, plan), peak_memory(model, plan, reserve).peak
