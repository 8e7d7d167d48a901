"""Program of the ranks of one pipeline stage: a step, or several, of the schedule's turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...sim.ops import Kind
from ...sim.spmd.spmd_graph import RankProgram
from .description import Transformer
from .gradients import DATA, EXPERT_DATA, buckets, gathering, reduction, replicas
from .layers import Layer
from .operations import EXPERT, TENSOR, Work, exchanged
from .optimizer import MODULE, optimizer_works
from .parallel_plan import ParallelPlan
from .schedules import PipelineTurn, turns_of_stage
from .segments import (
    COMPUTE,
    EXCHANGE,
    GRADIENTS,
    MESSAGES,
    OpTable,
    Segment,
    SegmentBuilder,
    StepOp,
    works_segment,
)
from .stages import backward_works, chunks_of_stage, holds_copy_of_embedding, stage_weights
from .whole_layers import whole_layer, whole_update

EMBEDDING = "embedding"  # group of the two stages that hold a tied embedding
GROUPS = (TENSOR, DATA, EXPERT, EXPERT_DATA, EMBEDDING)
FORWARD, BACKWARD = 0, 1  # families of peers: the next stage, and the one before


@dataclass(frozen=True)
class StageProgram:
    """Writer of the program of one stage.

    Parameters
    ----------
    table : of all distinct ops
    steps : training steps, one after another
    """

    model: Transformer
    plan: ParallelPlan
    stage: int
    table: OpTable = field(default_factory=OpTable)
    steps: int = 1

    @cached_property
    def chunks(self) -> tuple[tuple[Layer, ...], ...]:
        """Layers of each chunk."""
        return chunks_of_stage(self.model, self.plan, self.stage)

    @cached_property
    def turns(self) -> list[PipelineTurn]:
        """Turns of one step."""
        plan = self.plan
        return turns_of_stage(
            plan.schedule, self.stage, plan.pipeline, plan.micro_batches, plan.chunks
        )

    def program(self) -> RankProgram:
        """Program of the steps."""
        build, periods = SegmentBuilder(), []
        for step in range(self.steps):
            before = build.count
            self._write_step(build)
            periods.append(np.full(build.count - before, step))
        return build.program(self.table, np.concatenate(periods))

    def _write_step(self, build: SegmentBuilder) -> None:
        last = {t.chunk: i for i, t in enumerate(self.turns) if not t.forward}
        for i, turn in enumerate(self.turns):
            where = FORWARD if turn.forward else BACKWARD
            if self._hears(turn):
                build.op(self._messages[Kind.RECV, where])
            if turn.forward:
                build.append(self._forward[turn.chunk])
            elif i == last[turn.chunk]:
                build.append(self._last_backward[turn.chunk])
            else:
                build.append(self._backward[turn.chunk])
            if self._sends(turn):
                build.hang(self._messages[Kind.SEND, where], MESSAGES + where)
        build.join()
        for work in self._end_works():
            build.op(self._number(work, MODULE))

    def _end_works(self) -> Iterator[Work]:
        """Ops of the step after its last gradient."""
        plan, (own, expert) = self.plan, stage_weights(self.model, self.plan, self.stage)
        if not plan.overlap and plan.zero < 3:
            for group, numbers in ((DATA, own), (EXPERT_DATA, expert)):
                if numbers and replicas(plan, group) > 1:
                    yield reduction(plan, group, numbers, "gradients")
        if self._shares_embedding:
            numbers = -(-self.model.vocabulary // plan.tensor) * self.model.hidden
            yield exchanged("embedding gradients", "all-reduce", EMBEDDING,
                            plan.precision.communication, numbers)  # fmt: skip
        works = list(optimizer_works(plan, own, expert))
        if plan.whole_layers:
            layers = sum(len(chunk) for chunk in self.chunks)
            works = [whole_update(works, layers, self.model.hidden, plan.split)]
        yield from works

    @property
    def _shares_embedding(self) -> bool:
        """Whether the stage holds one of two copies of a tied embedding."""
        first = self.stage == 0 and self.model.tied and self.plan.pipeline > 1
        return first or holds_copy_of_embedding(self.model, self.plan, self.stage)

    def _hears(self, turn: PipelineTurn) -> bool:
        """Whether what a turn works on comes from another stage."""
        if turn.forward:
            return (self.stage, turn.chunk) != (0, 0)
        return (self.stage, turn.chunk) != (self.plan.pipeline - 1, self.plan.chunks - 1)

    def _sends(self, turn: PipelineTurn) -> bool:
        """Whether what a turn makes goes to another stage."""
        return self._hears(turn._replace(forward=not turn.forward))

    @cached_property
    def _messages(self) -> dict[tuple[Kind, int], int]:
        """Number of each kind of message."""
        kinds, ways = (Kind.SEND, Kind.RECV), (FORWARD, BACKWARD)
        return {(kind, way): self._message(kind, way) for kind in kinds for way in ways}

    def _message(self, kind: Kind, family: int) -> int:
        """Activations to the next stage, or gradients to the one before."""
        plan = self.plan
        numbers = plan.split.own_tokens * self.model.hidden
        what = "gradients" if family == BACKWARD else "activations"
        word = kind.name.lower()
        work = exchanged(f"{word} {what}", "write", "", plan.precision.activations, numbers)
        work = work._replace(signature=work.signature.replace("collective:", f"{word}:"))
        module = "backward" if family == BACKWARD else "forward"
        stream = COMPUTE if kind == Kind.RECV else MESSAGES + family  # who hears goes on with it
        return self.table.number(StepOp(kind, stream, family, work, module))

    def _number(self, work: Work, module: str, stream: int = EXCHANGE) -> int:
        """Number of an op in the table."""
        if not work.group:
            return self.table.number(StepOp(Kind.COMPUTE, COMPUTE, -1, work, module))
        family = GROUPS.index(work.group)
        return self.table.number(StepOp(Kind.COLLECTIVE, stream, family, work, module))

    def _works(self, works: Iterable[Work], module: str) -> Segment:
        return works_segment((self._number(w, module), w.beside) for w in works)

    @cached_property
    def _forward(self) -> list[Segment]:
        """Segment of each chunk, forward."""
        return [self._written(chunk, True, reduced=False) for chunk in self.chunks]

    @cached_property
    def _backward(self) -> list[Segment]:
        """Segment of each chunk, backward, of all micro-batches but the last."""
        every = self.plan.zero >= 2
        return [self._written(chunk, False, reduced=every) for chunk in self.chunks]

    @cached_property
    def _last_backward(self) -> list[Segment]:
        """Segment of each chunk, backward, of the last micro-batch, with its reductions."""
        reduced = self.plan.overlap or self.plan.zero == 3
        return [self._written(chunk, False, reduced=reduced) for chunk in self.chunks]

    def _written(self, chunk: tuple[Layer, ...], forward: bool, reduced: bool) -> Segment:
        """One pass through a chunk.

        With ZeRO-3 the weights of a layer are gathered while the layer before it is computed.

        Parameters
        ----------
        reduced : whether gradients are reduced as they come
        """
        build = SegmentBuilder()
        layers = chunk if forward else chunk[::-1]
        phase = "forward" if forward else "backward"
        closed = self._buckets(layers) if reduced else {}
        gathered = self._gather(build, layers[0]) if self.plan.zero == 3 else []
        for number, layer in enumerate(layers):
            waited = gathered
            if self.plan.zero == 3 and number + 1 < len(layers):
                gathered = self._gather(build, layers[number + 1])
            build.wait(waited)
            works = self._layer_works(layer, forward)
            build.append(self._works(works, f"{phase} {layer.name}"))
            for work in closed.get(number, ()):
                row = build.hang(self._number(work, "gradients", GRADIENTS), GRADIENTS)
                build.leave_open(row)
        return build.segment()

    def _layer_works(self, layer: Layer, forward: bool) -> Iterable[Work]:
        """Ops of a layer, one for all of them where layers are timed whole."""
        works = layer.forward if forward else backward_works(layer, self.plan)
        if not self.plan.whole_layers:
            return works
        phase = "forward" if forward else "backward"
        return whole_layer(layer.name, phase, self.model.hidden, self.plan.split, works)

    def _gather(self, build: SegmentBuilder, layer: Layer) -> list[int]:
        """Rows that gather the weights of a layer."""
        rows = []
        for group, numbers in _weights_by_group(self.plan, layer).items():
            work = gathering(self.plan, group, numbers, "weights")
            rows.append(build.hang(self._number(work, "weights", GRADIENTS), GRADIENTS))
        return rows

    def _buckets(self, layers: tuple[Layer, ...]) -> dict[int, list[Work]]:
        """Reductions by the number of the layer after which they begin."""
        found: dict[int, list[Work]] = {}
        most = 1 if self.plan.zero == 3 else self.plan.bucket
        for group in (DATA, EXPERT_DATA):
            sizes = [_weights_by_group(self.plan, layer).get(group, 0) for layer in layers]
            for bucket in buckets(sizes, most):
                numbers = sum(sizes[i] for i in bucket)
                if numbers:
                    work = reduction(self.plan, group, numbers, "gradients")
                    found.setdefault(bucket[-1], []).append(work)
        return found


def _weights_by_group(plan: ParallelPlan, layer: Layer) -> dict[str, int]:
    """Parameters of a layer on a rank, by the group that holds copies of them; none alone."""
    both = {DATA: layer.weights, EXPERT_DATA: layer.expert_weights}
    return {group: n for group, n in both.items() if n and replicas(plan, group) > 1}
