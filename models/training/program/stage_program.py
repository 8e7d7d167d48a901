"""Rank programs of one pipeline stage: one or more steps, following the schedule's turns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

from ....sim.facts.ops import Kind
from ....sim.facts.spmd.spmd_graph import RankProgram
from ..description.description import Model, Transformer
from ..layer.layers import Layer
from ..layer.operations import CONTEXT, EXPERT, RING, TENSOR, Shape, Work, collective_work
from ..plan.gradients import (
    DATA,
    EXPERT_DATA,
    batch_norm_broadcasts,
    bucket_copy_in_works,
    bucket_copy_out_works,
    bucket_size,
    fill_buckets,
    gradient_reduction,
    group_of,
    replica_count,
    weight_gather,
)
from ..plan.parallel_plan import ParallelPlan
from ..plan.schedules import KINDS, WEIGHT, PassKind, StageTurns, turns_of_stage
from ..plan.stages import (
    backward_pieces,
    backward_works,
    chunks_of_stage,
    message_elements,
    model_parts_of_stage,
    shared_embedding,
    shares_embedding,
    stage_weights,
)
from .host_thread import with_host_thread
from .optimizer import MODULE, adam_work, cast_works, gather_works, norm_work, offloaded_works
from .segments import (
    COMPUTE,
    EXCHANGE,
    FROM_HOST,
    GRADIENTS,
    MESSAGES,
    ON_HOST,
    TO_HOST,
    OpTable,
    Rows,
    Segment,
    SegmentBuilder,
    StepOp,
    interleave_segments,
    pipelined_segment,
    program_of_rows,
    works_segment,
)
from .whole_layers import whole_layer, whole_update

EMBEDDING = "embedding"  # group of the two stages that hold a tied embedding
GROUPS = (TENSOR, DATA, EXPERT, EXPERT_DATA, EMBEDDING, CONTEXT)
PEERS = ("forward", "backward", "forward from the other end", "backward from there", RING)
ROUND = PEERS.index(RING)


class ChunkPass(NamedTuple):
    """One pass through a chunk.

    Parameters
    ----------
    reduces : True if gradients are reduced as soon as they are computed
    gathers : True if weights are gathered before they are used
    """

    what: PassKind
    chunk: int
    reduces: bool
    gathers: bool

    @property
    def forward(self) -> bool:
        """True for a forward pass."""
        return self.what is PassKind.FORWARD


class Weight(NamedTuple):
    """Parameter, and the position at which its gradient is computed.

    Parameters
    ----------
    place : layer index and operation index, in the order of the backward pass
    """

    place: tuple[int, int]
    group: str
    shape: Shape

    @property
    def numbers(self) -> int:
        """Number of elements of the parameter."""
        return math.prod(self.shape)


class Bucket(NamedTuple):
    """Gradient bucket: gradients that are reduced together."""

    parameters: tuple[Weight, ...]
    group: str

    @property
    def numbers(self) -> int:
        """Total number of elements."""
        return sum(parameter.numbers for parameter in self.parameters)


@dataclass(frozen=True)
class StageProgram:
    """Builder of the rank program of one pipeline stage.

    Parameters
    ----------
    table : table of all distinct ops
    steps : number of training steps
    place : index of the ranks among context-parallel ranks, if their work differs
    """

    model: Model
    plan: ParallelPlan
    stage: int
    table: OpTable = field(default_factory=OpTable)
    steps: int = 1
    place: int = 0

    @cached_property
    def chunks(self) -> tuple[tuple[Layer, ...], ...]:
        """Layers of each chunk."""
        return chunks_of_stage(self.model, self.plan, self.stage, self.place)

    @cached_property
    def turns(self) -> StageTurns:
        """Pipeline turns of one step."""
        plan = self.plan
        return turns_of_stage(
            plan.schedule, self.stage, plan.pipeline, plan.micro_batches, plan.chunks
        )

    def program(self) -> RankProgram:
        """Rank program of all steps."""
        return self._written_steps[0]

    @property
    def compute_ops_per_turn(self) -> tuple[int, ...]:
        """Number of compute ops in each turn of the schedule; concurrent turns count as one."""
        return self._written_steps[1]

    @cached_property
    def _written_steps(self) -> tuple[RankProgram, tuple[int, ...]]:
        """Rank program of all steps, and the number of compute ops in each turn."""
        build, periods, computed = SegmentBuilder(), [], tuple[int, ...]()
        for step in range(self.steps):
            before = build.count
            build.append(self._works(self._batch_norm_broadcasts(), "statistics"))
            computed = self._write_turns(build)
            self._write_end(build)
            periods.append(np.full(build.count - before, step))
        return self._program(build, np.concatenate(periods)), computed

    def _program(self, build: SegmentBuilder, periods: Rows) -> RankProgram:
        """Rank program from the builder, with host-thread ops if the plan has them."""
        if not self.plan.host_threads:
            return build.program(self.table, periods)
        ops, edges, origin = with_host_thread(build.segment(), self.table)
        return program_of_rows(ops, edges, self.table, periods[origin])

    def _write_turns(self, build: SegmentBuilder) -> tuple[int, ...]:
        """Write the turns of a step; returns the number of compute ops in each."""
        first = self._first_forward
        order = list(first)
        launched = {order[0]: self._gather_first(build, order[0])}
        begins, passes = self._passes_of_turns
        computed: list[int] = []
        at = 0
        for fresh in sorted({int(np.searchsorted(begins, n, "right")) - 1 for n in first.values()}):
            computed += self._write_repeated(build, passes[at:fresh])
            at = fresh + 1
            keys = self._chunk_passes(passes[fresh])
            chunks = [c for c in order if begins[fresh] <= first[c] < begins[fresh] + len(keys)]
            self._write_receives(build, keys)
            for chunk in chunks:
                build.wait(
                    launched[chunk] if chunk in launched else self._gather_first(build, chunk)
                )
            segment = self._passes(keys)
            build.append(segment)
            for chunk in chunks[-1:]:
                for next_chunk in order[order.index(chunk) + 1 :][:1]:
                    launched[next_chunk] = self._gather_first(build, next_chunk)
            self._send(build, keys)
            computed.append(int(self.table.computes(segment.ops).sum()))
        return (*computed, *self._write_repeated(build, passes[at:]))

    def _write_repeated(self, build: SegmentBuilder, passes: Rows) -> list[int]:
        """Write turns after the first of each chunk; returns the number of compute ops in each."""
        made: dict[tuple[int, int], tuple[Segment, int]] = {}
        pairs = [(first, second) for first, second in passes.tolist()]
        for pair in dict.fromkeys(pairs):  # in the order in which they come
            made[pair] = self._turn(self._chunk_passes(pair))
        build.append_each([made[pair][0] for pair in pairs])
        return [made[pair][1] for pair in pairs]

    @cached_property
    def _passes_of_turns(self) -> tuple[Rows, Rows]:
        """First of every one or two concurrent turns, shape (n,), and their pass indices, (n, 2).

        The second index is -1 for a turn without a concurrent one.
        """
        turns, plan = self.turns, self.plan
        last, first = np.zeros(len(turns), bool), np.zeros(len(turns), bool)
        last[[np.flatnonzero(turns.makes_weight_gradients & (turns.chunk == chunk))[-1]
              for chunk in self._first_forward]] = True  # fmt: skip
        first[list(self._first_forward.values())] = True
        # gradients are reduced in the last turn, or in every turn that computes them
        reduces = np.where(last, plan.overlap or plan.zero == 3, plan.zero >= 2)
        reduces &= turns.makes_weight_gradients
        # weights are gathered in the first forward turn, or in every turn that needs them
        gathers = turns.kind != WEIGHT if plan.zero == 3 else first & plan.gathers_ahead
        number = ((turns.chunk.astype(np.int64) * len(KINDS) + turns.kind) * 2 + reduces) * 2
        number += gathers
        begins = np.flatnonzero(~turns.beside)
        second = np.full(len(begins), -1)
        beside = np.flatnonzero(turns.beside)
        second[np.searchsorted(begins, beside) - 1] = number[beside]
        return begins, np.stack([number[begins], second], axis=1)

    def _chunk_passes(self, numbers: Iterable[int]) -> tuple[ChunkPass, ...]:
        """Passes with these indices."""
        return tuple(
            ChunkPass(
                KINDS[number // 4 % len(KINDS)],
                number // 4 // len(KINDS),
                reduces=bool(number & 2),
                gathers=bool(number & 1),
            )
            for number in map(int, numbers)
            if number >= 0
        )

    @cached_property
    def _turn_cache(self) -> dict[tuple[ChunkPass, ...], tuple[Segment, int]]:
        """Cache of the segments of turns."""
        return {}

    def _turn(self, keys: tuple[ChunkPass, ...]) -> tuple[Segment, int]:
        """Segment of one or two concurrent turns with messages, and its compute-op count."""
        if keys not in self._turn_cache:
            build = SegmentBuilder()
            self._write_receives(build, keys)
            build.append(self._passes(keys))
            self._send(build, keys)
            made = build.segment()
            self._turn_cache[keys] = made, int(self.table.computes(made.ops).sum())
        return self._turn_cache[keys]

    def _passes(self, keys: tuple[ChunkPass, ...]) -> Segment:
        """Segment of one pass, or of two concurrent passes."""
        return self._segment(keys[0]) if len(keys) == 1 else self._pair(*keys)

    def _write_receives(self, build: SegmentBuilder, passes: Iterable[ChunkPass]) -> None:
        """Write the messages received before passes."""
        for each in passes:
            if self._receives_input(each):
                build.op(self._message(Kind.RECV, self._peer_family(each)))

    def _send(self, build: SegmentBuilder, passes: Iterable[ChunkPass]) -> None:
        """Write the messages sent after passes."""
        for each in passes:
            if self._sends_output(each):
                peer_family = self._peer_family(each)
                build.add_parallel_op(self._message(Kind.SEND, peer_family), MESSAGES + peer_family)

    @cached_property
    def _first_forward(self) -> dict[int, int]:
        """Index of the first forward turn of each chunk, in turn order."""
        forward = np.flatnonzero(self.turns.forward)
        chunks, at = np.unique(self.turns.chunk[forward], return_index=True)
        found = sorted(zip(forward[at].tolist(), chunks.tolist(), strict=True))
        return {chunk: number for number, chunk in found}

    def _gather_first(self, build: SegmentBuilder, chunk: int) -> list[int]:
        """Write the gather of a chunk's first weights ahead of its first pass; returns the rows."""
        if not self.plan.gathers_ahead:
            return []
        gathers = self._bucket_gathers(self.chunks[chunk], chunk)
        return self._add_side_works(build, next(iter(gathers.values()), []))

    def _batch_norm_broadcasts(self) -> list[Work]:
        """Batch-norm broadcasts of DDP before a step."""
        if self.plan.reducer != "ddp" or replica_count(self.plan, DATA) == 1:
            return []
        return batch_norm_broadcasts(o for layer in self.chunks[0] for o in layer.operations)

    def _write_end(self, build: SegmentBuilder) -> None:
        if self.plan.reducer == "ddp":
            self._copy_back(build)
        build.wait_for_open_rows()
        for work in self._last_reductions():
            build.op(self._number(work, MODULE))
        build.append(self._update())

    def _copy_back(self, build: SegmentBuilder) -> None:
        """Append DDP's copies of gradients out of their buckets, in order, after each reduction."""
        closed = self._buckets_by_layer(self.chunks[0][::-1], 0)
        done = [bucket for place in sorted(closed) for bucket in closed[place]]
        for row, bucket in zip(build.open.tolist(), done, strict=True):
            build.wait([row])
            shapes = (parameter.shape for parameter in bucket.parameters)
            build.append(self._works(bucket_copy_out_works(self.plan, shapes), "gradients"))

    def _last_reductions(self) -> Iterator[Work]:
        """Reductions after the last gradient: those that are not overlapped."""
        plan, (own, expert) = self.plan, stage_weights(self.model, self.plan, self.stage)
        if not plan.overlap and plan.zero < 3:
            for group, numbers in ((DATA, own), (EXPERT_DATA, expert)):
                if numbers and replica_count(plan, group) > 1:
                    yield gradient_reduction(plan, group, numbers, "gradients")
        if shares_embedding(self.model, plan, self.stage):
            numbers = shared_embedding(self.model, plan)
            yield collective_work("embedding gradients", "all-reduce", EMBEDDING,
                            plan.precision.communication, numbers)  # fmt: skip

    def _update(self) -> Segment:
        """Weight update: gradient norm, Adam on GPU or host, and gathers of the result."""
        plan, (own, expert) = self.plan, stage_weights(self.model, self.plan, self.stage)
        norm, adam = norm_work(plan, own, expert), adam_work(plan, own, expert)
        shared = []
        if not plan.gathers_ahead:  # otherwise both belong to the next step's first forward pass
            shared = [*gather_works(plan, own, expert), *self._casts(own + expert)]
        if plan.whole_layers and isinstance(self.model, Transformer):
            layers = sum(len(chunk) for chunk in self.chunks)
            whole = whole_update([norm, adam, *shared], layers, self.model.hidden, plan.split)
            return self._works([whole], MODULE)
        if not plan.offload:
            return self._works([norm, adam, *shared], MODULE)
        build = SegmentBuilder()
        build.append(self._works([norm], MODULE))
        buckets = offloaded_works(plan, own, expert)
        build.append(
            pipelined_segment([[self._host_op_number(w) for w in bucket] for bucket in buckets])
        )
        build.append(self._works(shared, MODULE))
        return build.segment()

    def _host_op_number(self, work: Work) -> int:
        """Table index of a host op, or of a copy to or from the host."""
        kind, stream = {
            "copy:d2h": (Kind.COPY, TO_HOST),
            "host:adam": (Kind.HOST, ON_HOST),
            "copy:h2d": (Kind.COPY, FROM_HOST),
        }[work.signature.split()[0]]
        return self.table.number(StepOp(kind, stream, -1, work, MODULE))

    def _receives_input(self, each: ChunkPass) -> bool:
        """True if the input of a pass comes from another stage."""
        if each.what is PassKind.WEIGHT:
            return False
        part, parts = self._parts[each.chunk], self.plan.parts
        before = part - 1 if each.forward else part + 1
        here = self.plan.schedule == "zb-v" and {part, before} == {parts // 2 - 1, parts // 2}
        return 0 <= before < parts and not here  # the last stage of a V sends to itself

    def _sends_output(self, each: ChunkPass) -> bool:
        """True if the output of a pass goes to another stage."""
        if each.what is PassKind.WEIGHT:
            return False
        back = PassKind.BACKWARD if each.forward else PassKind.FORWARD
        return self._receives_input(each._replace(what=back))

    @cached_property
    def _parts(self) -> tuple[int, ...]:
        """For each chunk of the stage, index of the model part that it contains."""
        return model_parts_of_stage(self.plan, self.stage)

    def _peer_family(self, each: ChunkPass) -> int:
        """Number of the peer family over which the messages of a pass are sent."""
        other = 2 if self.plan.is_folded and each.chunk == 1 else 0
        return other + (0 if each.forward else 1)

    def _message(self, kind: Kind, peer_family: int) -> int:
        """Op table index of a send or receive of activations (forward) or gradients (backward)."""
        plan = self.plan
        numbers = message_elements(self.model, plan)
        forward = peer_family % 2 == 0
        what = "activations" if forward else "gradients"
        word = kind.name.lower()
        work = collective_work(f"{word} {what}", "write", "", plan.precision.activations, numbers)
        signature = work.signature.replace("collective:", f"{word}:")
        work = work._replace(signature=signature, awaited=kind == Kind.RECV)
        return self._message_number(kind, peer_family, work, "forward" if forward else "backward")

    def _message_number(self, kind: Kind, peer_family: int, work: Work, module: str) -> int:
        """Index of a send or receive in the program's op table; a new op is added to the table."""
        stream = COMPUTE if kind == Kind.RECV else MESSAGES + peer_family
        return self.table.number(StepOp(kind, stream, peer_family, work, module))

    def _number(self, work: Work, module: str, stream: int = EXCHANGE) -> int:
        """Index of an op in the program's op table; a new op is added to the table."""
        if not work.group:
            return self.table.number(StepOp(Kind.COMPUTE, COMPUTE, -1, work, module))
        if work.group == RING:
            kind = Kind.SEND if work.signature.startswith("send:") else Kind.RECV
            return self._message_number(kind, ROUND, work, module)
        family = GROUPS.index(work.group)
        return self.table.number(StepOp(Kind.COLLECTIVE, stream, family, work, module))

    def _works(self, works: Iterable[Work], module: str) -> Segment:
        return works_segment((self._number(w, module), w.beside) for w in works)

    @cached_property
    def _segment_cache(self) -> dict[tuple[ChunkPass, ...], Segment]:
        """Cache of the segments of passes."""
        return {}

    def _segment(self, key: ChunkPass) -> Segment:
        """Segment of a pass, from the cache."""
        if (key,) not in self._segment_cache:
            self._segment_cache[key,] = self._build_pass(key)
        return self._segment_cache[key,]

    def _pair(self, first: ChunkPass, second: ChunkPass) -> Segment:
        """Segment of two concurrent passes, from the cache."""
        if (first, second) not in self._segment_cache:
            parts = self._segment(first), self._segment(second)
            self._segment_cache[first, second] = interleave_segments(*parts, self.table)
        return self._segment_cache[first, second]

    def _build_pass(self, key: ChunkPass) -> Segment:
        """Segment of one pass through a chunk.

        Weights are gathered one bucket ahead: the next bucket during the layers of the current one.
        With ZeRO-3 a bucket is a layer. With ZeRO-1 and 2 they are the gradient buckets, and the
        first one is gathered before the pass.
        """
        build = SegmentBuilder()
        forward = key.what is PassKind.FORWARD
        layers = self.chunks[key.chunk] if forward else self.chunks[key.chunk][::-1]
        phase = "forward" if forward else "backward"
        closed = self._buckets_by_layer(layers, key.chunk) if key.reduces else {}
        gathers = self._bucket_gathers(layers, key.chunk) if key.gathers else {}
        after = dict(pairwise(gathers))
        sharded = self.plan.zero == 3
        gathered = self._add_side_works(build, next(iter(gathers.values()), [])) if sharded else []
        for number, layer in enumerate(layers):
            if number in gathers:
                waited, gathered = gathered, []
                if number in after:
                    gathered = self._add_side_works(build, gathers[after[number]])
                build.wait(waited)
            if key.gathers and not sharded:
                held = layer.weights + layer.expert_weights + self._tied_copy_parameters(layer)
                casts = self._casts(held)
                build.append(self._works(casts, f"{phase} {layer.name}"))
            waiting: list[Work] = []
            for place, works in enumerate(self._pieces(layer, key)):
                waiting += works
                if (number, place) in closed:
                    build.append(self._works(waiting, f"{phase} {layer.name}"))
                    self._reduce(build, closed[number, place])
                    waiting = []
            build.append(self._works(waiting, f"{phase} {layer.name}"))
        return build.segment()

    def _pieces(self, layer: Layer, key: ChunkPass) -> list[Iterable[Work]]:
        """Ops of a layer as one list per operation; gradients can be reduced after each."""
        if not key.reduces or self._is_timed_whole:
            before: list[Iterable[Work]] = [()] * (len(layer.operations) - 1)
            return [*before, self._layer_works(layer, key.what)]
        pieces = backward_pieces(layer, self.plan, key.what)
        pairs = zip(pieces, reversed(layer.operations), strict=True)
        return [(*piece, *bucket_copy_in_works(self.plan, operation)) for piece, operation in pairs]

    def _reduce(self, build: SegmentBuilder, filled: Iterable[Bucket]) -> None:
        """Write the reductions of buckets; the end of the step waits for them."""
        works = [
            gradient_reduction(self.plan, each.group, each.numbers, "gradients") for each in filled
        ]
        for row in self._add_side_works(build, works, "gradients"):
            build.leave_open(row)

    def _casts(self, numbers: int) -> Iterable[Work]:
        """Casts of updated weights; none for adapters, whose GEMMs use the stored type."""
        with_adapters = isinstance(self.model, Transformer) and self.model.adapters
        return () if with_adapters else cast_works(self.plan, numbers)

    @property
    def _is_timed_whole(self) -> bool:
        """True if each layer is timed as a single op."""
        return self.plan.whole_layers and isinstance(self.model, Transformer)

    def _layer_works(self, layer: Layer, what: PassKind) -> Iterable[Work]:
        """Ops of a layer; a single op if layers are timed as one op."""
        forward = what is PassKind.FORWARD
        works = layer.forward if forward else backward_works(layer, self.plan, what)
        if not (self.plan.whole_layers and isinstance(self.model, Transformer)):
            return works
        phase = "forward" if forward else "backward"
        return whole_layer(layer.name, phase, self.model.hidden, self.plan.split, works)

    def _add_side_works(
        self, build: SegmentBuilder, works: Iterable[Work], module: str = "weights"
    ) -> list[int]:
        """Write weight or gradient collectives that overlap with the chain; returns rows."""
        return [build.add_parallel_op(self._number(w, module, GRADIENTS), GRADIENTS) for w in works]

    def _bucket_gathers(self, layers: tuple[Layer, ...], chunk: int) -> dict[int, list[Work]]:
        """Weight gathers, by the index of the first layer that needs them, in that order."""
        last_first = layers[::-1]
        copied = [
            Weight((number, len(layer.operations)), DATA, (more,))
            for number, layer in enumerate(last_first)
            if (more := self._tied_copy_parameters(layer))
        ]
        every = sorted([*self._parameters(last_first), *copied], key=lambda p: p.place)
        found: dict[int, list[Work]] = {}
        for bucket in reversed(self._group_into_buckets(every, chunk)):  # in the order of gradients
            first = len(layers) - 1 - bucket[-1].place[0]
            for group in (DATA, EXPERT_DATA):
                if count := sum(p.numbers for p in bucket if p.group == group):
                    work = weight_gather(self.plan, group, count, "weights")
                    found.setdefault(first, []).append(work)
        if self.plan.zero == 3:
            for number, layer in enumerate(layers):
                if frozen := list(self._frozen_gathers(layer)):
                    found.setdefault(number, []).extend(frozen)
        return dict(sorted(found.items()))

    def _frozen_gathers(self, layer: Layer) -> Iterator[Work]:
        """Gathers of frozen weights that ZeRO-3 shards."""
        dtype = self.plan.precision.of_frozen
        for group, count in _by_group(self.plan, layer.frozen, layer.frozen_experts).items():
            yield weight_gather(self.plan, group, count, "frozen weights", dtype)

    def _group_into_buckets(
        self, parameters: Sequence[Weight], chunk: int
    ) -> list[tuple[Weight, ...]]:
        """Parameters grouped into buckets; with ZeRO-3, one bucket per layer."""
        plan = self.plan
        if plan.zero == 3:
            return [tuple(of) for _, of in groupby(parameters, key=lambda p: p.place[0])]
        sizes = [parameter.numbers for parameter in parameters]
        filled = fill_buckets(sizes, bucket_size(plan, self._parts[chunk]), plan.first_bucket)
        return [tuple(parameters[i] for i in inside) for inside in filled]

    def _tied_copy_parameters(self, layer: Layer) -> int:
        """Number of parameters of a layer that are a copy of the first stage's tied embedding."""
        if layer.name != "output" or not self.stage or self.plan.zero == 3:
            return 0
        shared = shares_embedding(self.model, self.plan, self.stage)
        return shared_embedding(self.model, self.plan) if shared else 0

    def _buckets_by_layer(
        self, layers: tuple[Layer, ...], chunk: int
    ) -> dict[tuple[int, int], list[Bucket]]:
        """Buckets by the layer and operation after which they are full.

        Parameters
        ----------
        layers : layers in backward order
        """
        found: dict[tuple[int, int], list[Bucket]] = {}
        every = self._parameters(layers)
        for group in (DATA, EXPERT_DATA):
            for filled in self._group_into_buckets([p for p in every if p.group == group], chunk):
                found.setdefault(filled[-1].place, []).append(Bucket(filled, group))
        return found

    def _parameters(self, layers: tuple[Layer, ...]) -> list[Weight]:
        """Parameters with copies on other ranks, in the order of their gradients."""
        groups = {group for group in (DATA, EXPERT_DATA) if replica_count(self.plan, group) > 1}
        return [
            Weight((number, len(layer.operations) - 1 if self._is_timed_whole else place), group,
                      shape)
            for number, layer in enumerate(layers)
            for place, operation in enumerate(reversed(layer.operations))
            if operation.trained and (group := group_of(self.plan, operation)) in groups
            for shape in operation.parameters
        ]  # fmt: skip


def _by_group(plan: ParallelPlan, own: int, expert: int) -> dict[str, int]:
    """Number of parameters on a rank, by group of ranks that hold copies of them.

    Groups of a single rank are left out.
    """
    both = {DATA: own, EXPERT_DATA: expert}
    return {group: n for group, n in both.items() if n and replica_count(plan, group) > 1}
