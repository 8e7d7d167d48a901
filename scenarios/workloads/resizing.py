"""Resize a recorded step to other degrees of parallelism, for ``workload.scale_to``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sim.errors import ScenarioError
from ...sim.facts.graph import Graph
from ...sim.facts.ops import Kind
from ...sim.units import ByteRate
from .parallel import ParallelismDegrees, ScaledParallelism

if TYPE_CHECKING:
    from ...traces.trace import Trace
    from ...traces.transform.scale import Layout
    from ...traces.transform.tensor_plan import TensorPlan

DESCRIBE = "describe the model instead (workload.type: training)"


@dataclass(frozen=True)
class Resizing:
    """A recorded step and the parallelism to resize it to.

    Parameters
    ----------
    trace : recorded trace; None for a graph that was read, as from Chakra
    to : new degrees of parallelism
    recorded : recorded degrees of parallelism; None if all recorded ranks are data-parallel
    gpu : settings of the cluster's GPU
    stretch : factor by which the recorded times in the graph were multiplied
    inference : settings by which the graph was inferred
    """

    trace: Trace | None
    to: ScaledParallelism
    recorded: ParallelismDegrees | None
    gpu: Mapping[str, Any]
    stretch: float
    inference: Mapping[str, Any]

    def apply(self, graph: Graph) -> Graph:
        """Graph with the new degrees of parallelism.

        Raises
        ------
        ScenarioError, TraceError
            The step cannot be resized; the message gives the reason and an alternative.
        """
        from ...traces.transform.scale import scale

        wanted, was = self.to.parallel, self._layout(graph)
        self._refuse_degrees(was)
        plan = self._plan(graph, was) if wanted.tensor != was.tensor else None
        if plan is None:
            return scale(self._data_parallel(graph, was, None), was, wanted.data)
        return self._tensor_parallel(graph, was, plan)

    def _layout(self, graph: Graph) -> Layout:
        from ...traces.transform.scale import Layout

        of = self.recorded
        return Layout(of.tensor, of.data, of.pipeline) if of else Layout(data=graph.ranks)

    def _refuse_degrees(self, was: Layout) -> None:
        """Raise an error for degrees that no recorded step can be resized to."""
        wanted = self.to.parallel
        if wanted.pipeline != was.pipeline:
            raise ScenarioError(
                f"workload.scale_to.parallel.pipeline: is {wanted.pipeline}, but {was.pipeline} "
                "was recorded, and a recorded step does not say the layers and messages of a "
                f"stage of another length; {DESCRIBE}"
            )
        if wanted.tensor != was.tensor and was.tensor * was.pipeline > 1:
            raise ScenarioError(
                f"workload.scale_to.parallel.tensor: is {wanted.tensor}, but {was.tensor} was "
                "recorded, and only a step whose ranks hold whole layers can be split (recorded "
                f"tensor {was.tensor}, pipeline {was.pipeline}); {DESCRIBE}"
            )

    def _plan(self, graph: Graph, was: Layout) -> TensorPlan:
        from ...traces.transform.tensor_plan import tensor_plan

        if self.trace is None:
            raise ScenarioError(
                "workload.scale_to.parallel.tensor: a Chakra trace does not have the GEMMs of a "
                f"layer and their shapes; use a Kineto trace, or {DESCRIBE}"
            )
        if was.ranks != graph.ranks:
            raise ScenarioError(
                f"workload.recorded_on.parallel: its degrees make {was.ranks} ranks, but "
                f"{graph.ranks} were recorded; write degrees whose product is {graph.ranks}"
            )
        if graph.ranks == 1 and np.any(graph.ops.kind == Kind.COLLECTIVE):
            raise ScenarioError(
                "workload.scale_to.parallel.tensor: only one rank of several was recorded, and its "
                "gradients would differ; use the files of all ranks, or write missing_ranks: "
                "like_recorded"
            )
        return tensor_plan(self.trace, self.to.parallel.tensor)

    def _data_parallel(self, graph: Graph, was: Layout, sizes: Mapping[int, float] | None) -> Graph:
        """Graph of one process with the ops that DDP adds, if it becomes data-parallel."""
        if was.ranks > 1 or self.to.parallel.data == 1:
            return graph
        if self.trace is None:
            raise ScenarioError(
                "workload.scale_to: a Chakra trace of one rank does not say which ops compute "
                "gradients; use a Kineto trace, or a trace of two ranks"
            )
        from ...traces.transform.data_parallel import data_parallel

        gloo = not any(p.device for p in self.trace.processes)  # two threads; NCCL has one stream
        return data_parallel(
            self.trace,
            graph,
            copy_rate=_gradient_copy_rate(self.gpu),
            in_flight=2 if gloo else 1,
            bucket=self.to.bucket,
            threads=self.gpu.get("core", False),
            stretch=self.stretch,
            sizes=sizes,
        )

    def _tensor_parallel(self, graph: Graph, was: Layout, plan: TensorPlan) -> Graph:
        """Graph of the wanted replicas, each of several tensor-parallel ranks."""
        from ...traces.infer.dependencies import graph_with_texts_of
        from ...traces.infer.ranks.gradients import gradients
        from ...traces.transform.buckets import resize_buckets
        from ...traces.transform.scale import scale
        from ...traces.transform.tensor_parallel import (
            expand_tensor_ranks,
            is_tensor_all_reduce,
            reshape_ops,
            with_all_reduces,
        )

        assert self.trace is not None  # noqa: S101  a plan is made of one
        wanted = self.to.parallel
        told = graph_with_texts_of(self.trace, plan.sharded_trace, **self.inference)
        if was.ranks > 1:
            done = gradients(self.trace, self.stretch)
            graph = resize_buckets(graph, done, plan.gradient_bytes, self.to.bucket)
        graph = self._data_parallel(graph, was, plan.gradient_bytes)
        graph = reshape_ops(graph, plan, told)
        threads = self.gpu.get("core", False)
        graph = with_all_reduces(graph, plan, told.operator, threads=threads)
        if wanted.data != was.data:
            graph = scale(graph, was, wanted.data, within=is_tensor_all_reduce(graph))
        return expand_tensor_ranks(graph, plan.degree)


def _gradient_copy_rate(gpu: Mapping[str, Any]) -> ByteRate:
    """Rate in B/s at which a GPU copies gradients.

    Raises
    ------
    ScenarioError
        The memory bandwidth of the GPU is unknown.
    """
    if "bandwidth" not in gpu:
        raise ScenarioError(
            "cluster.node.gpu.bandwidth: is missing; write it, since a trace of one process "
            "becomes data-parallel by copying gradients into buckets and back"
        )
    return float(gpu["bandwidth"]) * float(gpu.get("memory_efficiency", 1.0))
