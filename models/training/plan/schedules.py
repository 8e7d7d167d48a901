"""Pipeline schedules: the order of forward and backward passes of micro-batches on a stage."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray


class PassKind(Enum):
    """Kind of pass: forward, full backward, or only input or only weight gradients."""

    FORWARD = "forward"
    BACKWARD = "backward"
    INPUT = "backward of inputs"
    WEIGHT = "backward of weights"


class PipelineTurn(NamedTuple):
    """One pass of a micro-batch through a chunk of a stage.

    Parameters
    ----------
    beside : True if it runs concurrently with the previous turn, so that one computes while the
        other communicates
    """

    what: PassKind
    micro_batch: int
    chunk: int = 0
    beside: bool = False

    @property
    def forward(self) -> bool:
        """True for a forward pass."""
        return self.what is PassKind.FORWARD

    @property
    def makes_input_gradients(self) -> bool:
        """True if the pass computes input gradients, which the previous stage waits for."""
        return self.what in (PassKind.BACKWARD, PassKind.INPUT)

    @property
    def makes_weight_gradients(self) -> bool:
        """True if the pass computes weight gradients."""
        return self.what in (PassKind.BACKWARD, PassKind.WEIGHT)


KINDS = tuple(PassKind)
FORWARD, BACKWARD, INPUT, WEIGHT = range(len(KINDS))
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class StageTurns(Sequence[PipelineTurn]):
    """Turns of one stage in order, stored as columns because plan searches create millions.

    Parameters
    ----------
    kind : (n,) index of each turn's pass kind in ``KINDS``
    micro_batch, chunk, beside : (n,) number of the micro-batch, index of the chunk, and True if the
        turn runs concurrently with the previous one

    Examples
    --------
    >>> turns = StageTurns.of([PipelineTurn(PassKind.FORWARD, 0), PipelineTurn(PassKind.WEIGHT, 0)])
    >>> len(turns), turns[1].what.value, turns.makes_weight_gradients.tolist()
    (2, 'backward of weights', [False, True])
    """

    kind: NDArray[np.int8]
    micro_batch: NDArray[np.int32]
    chunk: NDArray[np.int16]
    beside: Mask

    @classmethod
    def of(cls, turns: Iterable[PipelineTurn]) -> StageTurns:
        """Convert a sequence of turns."""
        rows = [(KINDS.index(t.what), t.micro_batch, t.chunk, t.beside) for t in turns]
        kind, micro_batch, chunk, beside = zip(*rows, strict=True)
        return cls(
            np.array(kind, np.int8),
            np.array(micro_batch, np.int32),
            np.array(chunk, np.int16),
            np.array(beside, bool),
        )

    @cached_property
    def forward(self) -> Mask:
        """Mask of forward passes, shape (n,)."""
        return np.asarray(self.kind == FORWARD)

    @cached_property
    def makes_input_gradients(self) -> Mask:
        """Mask of passes that compute input gradients, shape (n,)."""
        return np.isin(self.kind, (BACKWARD, INPUT))

    @cached_property
    def makes_weight_gradients(self) -> Mask:
        """Mask of passes that compute weight gradients, shape (n,)."""
        return np.isin(self.kind, (BACKWARD, WEIGHT))

    def __len__(self) -> int:
        return len(self.kind)

    def __iter__(self) -> Iterator[PipelineTurn]:
        columns = self.kind, self.micro_batch, self.chunk, self.beside
        for kind, *rest in zip(*(column.tolist() for column in columns), strict=True):
            yield PipelineTurn(KINDS[kind], *rest)

    @overload
    def __getitem__(self, at: int) -> PipelineTurn: ...
    @overload
    def __getitem__(self, at: slice) -> StageTurns: ...
    def __getitem__(self, at: int | slice) -> PipelineTurn | StageTurns:
        if isinstance(at, slice):
            return StageTurns(self.kind[at], self.micro_batch[at], self.chunk[at], self.beside[at])
        return PipelineTurn(
            KINDS[self.kind[at]],
            int(self.micro_batch[at]),
            int(self.chunk[at]),
            bool(self.beside[at]),
        )


def gpipe(stage: int, stages: int, micro_batches: int) -> list[PipelineTurn]:
    """GPipe: all forward passes, then all backward passes in reverse order (arXiv:1811.06965).

    >>> [(t.forward, t.micro_batch) for t in gpipe(0, 2, 2)]
    [(True, 0), (True, 1), (False, 1), (False, 0)]
    """
    every = range(micro_batches)
    return [_forward(m) for m in every] + [_backward(m) for m in reversed(every)]


def _forward(micro_batch: int, chunk: int = 0) -> PipelineTurn:
    return PipelineTurn(PassKind.FORWARD, micro_batch, chunk)


def _backward(micro_batch: int, chunk: int = 0) -> PipelineTurn:
    return PipelineTurn(PassKind.BACKWARD, micro_batch, chunk)


def one_forward_one_backward(stage: int, stages: int, micro_batches: int) -> StageTurns:
    """1F1B (PipeDream-Flush): warm-up with one forward pass per later stage, then alternate.

    Narayanan et al. 2021, arXiv:2104.04473, section 2.2.1.

    >>> "".join("BF"[t.forward] for t in one_forward_one_backward(0, 3, 4))
    'FFFBFBBB'
    """
    return _alternate(stages - stage - 1, micro_batches)


def interleaved(stage: int, stages: int, micro_batches: int, chunks: int) -> StageTurns:
    """Interleaved 1F1B: several chunks per stage, with micro-batches in groups of the stage count.

    Narayanan et al. 2021, arXiv:2104.04473, section 2.2.2; warm-up as in Megatron-LM's
    ``forward_backward_pipelining_with_interleaving``.

    >>> [(t.micro_batch, t.chunk) for t in interleaved(1, 2, 2, 2) if t.forward]
    [(0, 0), (1, 0), (0, 1), (1, 1)]
    """
    ahead = (stages - stage - 1) * 2 + (chunks - 1) * stages
    return _alternate(ahead, micro_batches, chunks, stages)


def combined_1f1b(stage: int, stages: int, micro_batches: int, chunks: int) -> StageTurns:
    """Combined 1F1B: each forward pass runs concurrently with the backward pass after it.

    Of the two micro-batches, one computes while tokens of the other are exchanged. A combined pass
    takes the time of both, so stages warm up like interleaved ones, plus one forward pass. This is
    Megatron-LM's ``--overlap-moe-expert-parallel-comm`` (``pipeline_parallel/schedules.py``), which
    requires several chunks if there are several stages.

    >>> [(t.forward, t.micro_batch, t.beside) for t in combined_1f1b(0, 1, 2, 1)]
    ... # doctest: +NORMALIZE_WHITESPACE
    [(True, 0, False), (True, 1, False), (False, 0, True), (False, 1, False)]
    """
    ahead = (stages - stage - 1) * 2 + (chunks - 1) * stages + 1
    return _alternate(ahead, micro_batches, chunks, stages, beside=True)


def _alternate(
    ahead: int, micro_batches: int, chunks: int = 1, group: int = 1, beside: bool = False
) -> StageTurns:
    """Warm-up of ``ahead`` forward passes, then one forward and one backward pass in turn.

    Parameters
    ----------
    group : micro-batches that pass through one chunk before they enter the next
    beside : True if each backward pass runs concurrently with the forward pass before it
    """
    total = micro_batches * chunks
    number = np.arange(total)
    groups, within = np.divmod(number, group * chunks)
    turn_chunk, place = np.divmod(within, group)
    forward = number + np.maximum(number - ahead, 0)  # rows of both kinds
    backward = number + np.minimum(number + ahead + 1, total)
    kind, micro_batch = np.zeros(2 * total, np.int8), np.zeros(2 * total, np.int32)
    chunk = np.zeros(2 * total, np.int16)
    kind[backward] = BACKWARD
    for at, through in ((forward, turn_chunk), (backward, chunks - 1 - turn_chunk)):
        micro_batch[at] = groups * group + place
        chunk[at] = through
    pairs = np.zeros(2 * total, bool)
    pairs[backward[: max(total - ahead, 0)]] = beside
    return StageTurns(kind, micro_batch, chunk, pairs)


def zero_bubble_h1(stage: int, stages: int, micro_batches: int) -> list[PipelineTurn]:
    """ZB-H1: 1F1B with delayed weight gradients, which fill the bubble.

    One micro-batch is delayed per earlier stage. It has a third of the bubble of 1F1B, at the same
    peak memory (Qi et al. 2023, arXiv:2401.10241, section 2.2).

    >>> "".join(t.what.name[0] for t in zero_bubble_h1(1, 2, 3))  # forward, inputs, weights
    'FIFIWFIWW'
    """
    return _with_waiting_weights(one_forward_one_backward(stage, stages, micro_batches), stage)


def _with_waiting_weights(whole: Iterable[PipelineTurn], most: int) -> list[PipelineTurn]:
    """Turns with weight gradients delayed until more than ``most`` wait, or to the end."""
    turns: list[PipelineTurn] = []
    waiting: deque[int] = deque()
    for turn in whole:
        if turn.forward:
            turns.append(turn)
            continue
        turns.append(turn._replace(what=PassKind.INPUT))
        waiting.append(turn.micro_batch)
        if len(waiting) > most:
            turns.append(PipelineTurn(PassKind.WEIGHT, waiting.popleft()))
    return turns + [PipelineTurn(PassKind.WEIGHT, m) for m in waiting]


def zero_bubble_h2(stage: int, stages: int, micro_batches: int) -> list[PipelineTurn]:
    """ZB-H2: twice the warm-up of 1F1B, so that no stage is idle once it has started.

    It has no bubble if all passes take the same time, at nearly twice the peak memory of 1F1B (Qi
    et al. 2023, arXiv:2401.10241, section 2.2).

    >>> "".join(t.what.name[0] for t in zero_bubble_h2(0, 2, 4))
    'FFFIWFIWIWIW'
    """
    ahead = 2 * (stages - stage - 1)
    return _with_waiting_weights(_alternate(ahead, micro_batches), 2 * stage)


def zero_bubble_v(stage: int, stages: int, micro_batches: int) -> list[PipelineTurn]:
    """ZB-V: two chunks per stage; the model runs down the stages, then up again.

    It has no bubble if all passes take the same time, at the peak memory of 1F1B on every stage (Qi
    et al. 2023, arXiv:2401.10241, section 6). A full pipeline needs 2 p - 1 micro-batches; with
    fewer, the turns of the missing ones are left out.

    >>> "".join(t.what.name[0] + str(t.chunk) for t in zero_bubble_v(1, 2, 3))
    'F0F1F0F1I1W1F0I0W0F1I1W1I0I1I0W0W1W0'
    """
    down, up = 0, 1
    every = max(micro_batches, 2 * stages - 1)
    write = _TurnWriter()
    for _ in range(2 * (stages - stage) - 1):
        write.forward(down)
    for _ in range(stage):
        write.forward(up)
        write.forward(down)
    for _ in range(stages - stage):
        write.forward(up)
        write.both(up)
    for turn in range(every - stages):
        if turn < every - 2 * stages + stage + 1:
            write.forward(down)
        write.both(down)
        write.forward(up)
        write.both(up)
    for _ in range(stage):
        write.backward(down, weights=False)
        write.backward(up, weights=False)
    for _ in range(stages - stage):
        write.backward(down, weights=False)
        write.weights(down)
    while write.waits(up):
        write.weights(up)
    while write.waits(down):
        write.weights(down)
    return [turn for turn in write.turns if turn.micro_batch < micro_batches]


def dualpipe(stage: int, stages: int, micro_batches: int) -> list[PipelineTurn]:
    """DualPipe: micro-batches enter from both ends; forward and backward passes run concurrently.

    A stage has two chunks: its own part of the model, and the part of the mirrored stage. Half of
    the micro-batches run in each direction. DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1 and
    figure 5, which shows these eight phases.

    >>> "".join(t.what.name[0] for t in dualpipe(0, 2, 4))
    'FFFBFBBIW'
    """
    half = stages // 2
    depth = min(stage, stages - 1 - stage)
    outside = half - 1 - depth
    near = 0 if stage < half else 1
    write = _TurnWriter()
    for _ in range(2 * outside):
        write.forward(near)
    for _ in range(depth + 1):
        write.forward(near)
        write.forward(1 - near)
    for _ in range(outside):
        write.backward(1 - near, weights=False)
        write.weights()
        write.forward(1 - near)
    for turn in range(micro_batches // 2 - stages + depth + 1):
        write.forward(near)
        write.backward(1 - near, beside=outside > 0 or turn > 0)
        write.forward(1 - near)
        write.backward(near, beside=True)
    for _ in range(outside):
        write.backward(1 - near)
        write.forward(1 - near)
        write.backward(near, beside=True)
    for turn in range(2 * (depth + 1)):  # the second half delays weight gradients to the end
        write.backward(near if turn % 2 else 1 - near, weights=turn < depth + 1)
    for _ in range(outside):
        write.weights()
        write.backward(near, weights=False)
    for _ in range(depth + 1):
        write.weights()
    return write.turns


class _TurnWriter:
    """Builder of a turn list for two chunks; numbers the micro-batches of each chunk in order."""

    def __init__(self) -> None:
        self.turns: list[PipelineTurn] = []
        self._forward, self._backward = [0, 0], [0, 0]
        self._waiting: deque[PipelineTurn] = deque()

    def forward(self, chunk: int) -> None:
        self.turns.append(_forward(self._forward[chunk], chunk))
        self._forward[chunk] += 1

    def backward(self, chunk: int, weights: bool = True, beside: bool = False) -> None:
        what = PassKind.BACKWARD if weights else PassKind.INPUT
        turn = PipelineTurn(what, self._backward[chunk], chunk, beside)
        self._backward[chunk] += 1
        self.turns.append(turn)
        if not weights:
            self._waiting.append(turn._replace(what=PassKind.WEIGHT))

    def weights(self, chunk: int | None = None) -> None:
        """Add the weight-gradient pass that has waited longest, of one chunk or of any."""
        turn = next(t for t in self._waiting if chunk in (None, t.chunk))
        self._waiting.remove(turn)
        self.turns.append(turn)

    def both(self, chunk: int) -> None:
        """Add an input-gradient pass and, directly after it, its weight-gradient pass."""
        self.backward(chunk, weights=False)
        self.weights(chunk)

    def waits(self, chunk: int) -> bool:
        """True if weight gradients of a chunk are waiting."""
        return any(turn.chunk == chunk for turn in self._waiting)


@lru_cache(maxsize=1024)  # a few kB each; shared by plans that differ in ZeRO or recomputation
def turns_of_stage(
    schedule: str, stage: int, stages: int, micro_batches: int, chunks: int
) -> StageTurns:
    """Turns of one stage, by schedule name.

    >>> [turn.what.name[0] for turn in turns_of_stage("zb-h1", 1, 2, 2, 1)]
    ['F', 'I', 'F', 'I', 'W', 'W']
    """
    named = {
        "gpipe": gpipe,
        "zb-h1": zero_bubble_h1,
        "zb-h2": zero_bubble_h2,
        "zb-v": zero_bubble_v,
        "dualpipe": dualpipe,
    }
    if schedule in named:
        return StageTurns.of(named[schedule](stage, stages, micro_batches))
    if schedule == "combined-1f1b":
        return combined_1f1b(stage, stages, micro_batches, chunks)
    if chunks > 1:
        return interleaved(stage, stages, micro_batches, chunks)
    return one_forward_one_backward(stage, stages, micro_batches)
