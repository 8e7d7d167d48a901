"""Pipeline schedules: the order in which a stage runs micro-batches forward and backward."""

from __future__ import annotations

from collections import deque
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class PassKind(Enum):
    """What a turn computes: activations, gradients of inputs and weights, or one of these two."""

    FORWARD = "forward"
    BACKWARD = "backward"
    INPUT = "backward of inputs"
    WEIGHT = "backward of weights"


class PipelineTurn(NamedTuple):
    """One pass of a micro-batch through a chunk of layers of a stage.

    Parameters
    ----------
    beside : whether it runs beside the turn before it, each computing while the other exchanges
    """

    what: PassKind
    micro_batch: int
    chunk: int = 0
    beside: bool = False

    @property
    def forward(self) -> bool:
        """Whether it goes forward."""
        return self.what is PassKind.FORWARD

    @property
    def makes_input_gradients(self) -> bool:
        """Whether the stage before waits for it."""
        return self.what in (PassKind.BACKWARD, PassKind.INPUT)

    @property
    def makes_weight_gradients(self) -> bool:
        """Whether the gradients of its weights are then added up."""
        return self.what in (PassKind.BACKWARD, PassKind.WEIGHT)


def gpipe(stage: int, stages: int, micro_batches: int) -> list[PipelineTurn]:
    """All forward, then all backward, the last first (Huang et al. 2019, arXiv:1811.06965).

    >>> [(t.forward, t.micro_batch) for t in gpipe(0, 2, 2)]
    [(True, 0), (True, 1), (False, 1), (False, 0)]
    """
    every = range(micro_batches)
    return [_forward(m) for m in every] + [_backward(m) for m in reversed(every)]


def _forward(micro_batch: int, chunk: int = 0) -> PipelineTurn:
    return PipelineTurn(PassKind.FORWARD, micro_batch, chunk)


def _backward(micro_batch: int, chunk: int = 0) -> PipelineTurn:
    return PipelineTurn(PassKind.BACKWARD, micro_batch, chunk)


def one_forward_one_backward(stage: int, stages: int, micro_batches: int) -> list[PipelineTurn]:
    """As many forward ahead as there are stages behind, then one of each (PipeDream-Flush).

    Narayanan et al. 2021, arXiv:2104.04473, section 2.2.1.

    >>> "".join("BF"[t.forward] for t in one_forward_one_backward(0, 3, 4))
    'FFFBFBBB'
    """
    return _one_of_each(min(stages - stage - 1, micro_batches), micro_batches)


def _one_of_each(ahead: int, micro_batches: int) -> list[PipelineTurn]:
    """One forward and one backward by turns, after so many forward ahead."""
    turns = [_forward(m) for m in range(ahead)]
    for m in range(ahead, micro_batches):
        turns += [_forward(m), _backward(m - ahead)]
    return turns + [_backward(m) for m in range(micro_batches - ahead, micro_batches)]


def interleaved(stage: int, stages: int, micro_batches: int, chunks: int) -> list[PipelineTurn]:
    """1F1B of several chunks on each stage, in groups of as many micro-batches as stages.

    Narayanan et al. 2021, arXiv:2104.04473, section 2.2.2; warm-up as in Megatron-LM's
    ``forward_backward_pipelining_with_interleaving``.

    >>> [(t.micro_batch, t.chunk) for t in interleaved(1, 2, 2, 2) if t.forward]
    [(0, 0), (1, 0), (0, 1), (1, 1)]
    """
    total = micro_batches * chunks
    ahead = min((stages - stage - 1) * 2 + (chunks - 1) * stages, total)
    forward = [_interleaved_turn(k, stages, chunks, True) for k in range(total)]
    backward = [_interleaved_turn(k, stages, chunks, False) for k in range(total)]
    turns = forward[:ahead]
    for k in range(total - ahead):
        turns += [forward[ahead + k], backward[k]]
    return turns + backward[total - ahead :]


def _interleaved_turn(k: int, stages: int, chunks: int, forward: bool) -> PipelineTurn:
    group, within = divmod(k, stages * chunks)
    chunk, place = divmod(within, stages)
    micro_batch = group * stages + place
    return _forward(micro_batch, chunk) if forward else _backward(micro_batch, chunks - 1 - chunk)


def zero_bubble(stage: int, stages: int, micro_batches: int) -> list[PipelineTurn]:
    """1F1B whose gradients of weights wait, one micro-batch for each stage before, for the bubble.

    ZB-H1: a third of 1F1B's bubble at its peak of memory (Qi et al. 2023, arXiv:2401.10241,
    section 2.2).

    >>> "".join(t.what.name[0] for t in zero_bubble(1, 2, 3))  # forward, inputs, weights
    'FIFIWFIWW'
    """
    return _with_waiting_weights(one_forward_one_backward(stage, stages, micro_batches), stage)


def _with_waiting_weights(whole: list[PipelineTurn], most: int) -> list[PipelineTurn]:
    """Turns whose gradients of weights wait until more than so many do, or all else is done."""
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


def zero_bubble_ahead(stage: int, stages: int, micro_batches: int) -> list[PipelineTurn]:
    """Twice as many forward ahead as in 1F1B, so that no stage waits once it has begun.

    ZB-H2: no bubble where all passes take as long, at nearly twice 1F1B's peak of memory (Qi et al.
    2023, arXiv:2401.10241, section 2.2).

    >>> "".join(t.what.name[0] for t in zero_bubble_ahead(0, 2, 4))
    'FFFIWFIWIWIW'
    """
    ahead = min(2 * (stages - stage - 1), micro_batches)
    return _with_waiting_weights(_one_of_each(ahead, micro_batches), 2 * stage)


def zero_bubble_v(stage: int, stages: int, micro_batches: int) -> list[PipelineTurn]:
    """Two chunks a stage, of which the model goes down through the first, and up the second.

    ZB-V: no bubble where all passes take as long, at 1F1B's peak of memory on every stage (Qi et
    al. 2023, arXiv:2401.10241, section 6).  It takes 2 p - 1 micro-batches to fill it; of fewer the
    turns of those that are missing are left out.

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
    """Micro-batches from both ends, a pass forward beside one backward of the other direction.

    A stage has two chunks, its own part of the model and that of the stage as far from the other
    end; half of the micro-batches go each way.  DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1
    and figure 5, whose eight steps these are.

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
    for turn in range(2 * (depth + 1)):  # the later half leaves the weights for the end
        write.backward(near if turn % 2 else 1 - near, weights=turn < depth + 1)
    for _ in range(outside):
        write.weights()
        write.backward(near, weights=False)
    for _ in range(depth + 1):
        write.weights()
    return write.turns


class _TurnWriter:
    """Turns as they are written, each of two chunks' micro-batches in order."""

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
        """Gradients of weights that wait longest, of a chunk or of any."""
        turn = next(t for t in self._waiting if chunk in (None, t.chunk))
        self._waiting.remove(turn)
        self.turns.append(turn)

    def both(self, chunk: int) -> None:
        """Gradients of inputs, then at once of weights."""
        self.backward(chunk, weights=False)
        self.weights(chunk)

    def waits(self, chunk: int) -> bool:
        """Whether any gradients of weights of a chunk wait."""
        return any(turn.chunk == chunk for turn in self._waiting)


@lru_cache(maxsize=256)  # asked for by memory, programs and facts of one plan
def turns_of_stage(
    schedule: str, stage: int, stages: int, micro_batches: int, chunks: int
) -> tuple[PipelineTurn, ...]:
    """Turns of one stage by the name of a schedule."""
    return tuple(_turns_by_name(schedule, stage, stages, micro_batches, chunks))


class TurnColumns(NamedTuple):
    """Turns of one stage as columns, a row a turn.

    Parameters
    ----------
    forward : whether it goes forward
    inputs : whether it makes gradients of inputs
    apart : 1 where these are made without those of weights, -1 where those of weights follow
    chunk : layers that it goes through
    """

    forward: NDArray[np.bool_]
    inputs: NDArray[np.bool_]
    apart: NDArray[np.int8]
    chunk: NDArray[np.int16]


@lru_cache(maxsize=1024)  # some kB each; plans that differ in ZeRO or recomputation have the same
def turn_columns(
    schedule: str, stage: int, stages: int, micro_batches: int, chunks: int
) -> TurnColumns:
    """Turns of one stage as columns.

    >>> turn_columns("zb-h1", 1, 2, 3, 1).apart.tolist()  # FIFIWFIWW
    [0, 1, 0, 1, -1, 0, 1, -1, -1]
    """
    turns = turns_of_stage(schedule, stage, stages, micro_batches, chunks)
    apart = {PassKind.INPUT: 1, PassKind.WEIGHT: -1}
    return TurnColumns(
        np.array([t.forward for t in turns], bool),
        np.array([t.makes_input_gradients for t in turns], bool),
        np.array([apart.get(t.what, 0) for t in turns], np.int8),
        np.array([t.chunk for t in turns], np.int16),
    )


def _turns_by_name(
    schedule: str, stage: int, stages: int, micro_batches: int, chunks: int
) -> list[PipelineTurn]:
    named = {
        "gpipe": gpipe,
        "zb-h1": zero_bubble,
        "zb-h2": zero_bubble_ahead,
        "zb-v": zero_bubble_v,
        "dualpipe": dualpipe,
    }
    if schedule in named:
        return named[schedule](stage, stages, micro_batches)
    if chunks > 1:
        return interleaved(stage, stages, micro_batches, chunks)
    return one_forward_one_backward(stage, stages, micro_batches)
