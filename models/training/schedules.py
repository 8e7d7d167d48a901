"""Pipeline schedules: the order in which a stage runs micro-batches forward and backward."""

from __future__ import annotations

from typing import NamedTuple


class PipelineTurn(NamedTuple):
    """One pass of a micro-batch through a chunk of layers of a stage."""

    forward: bool
    micro_batch: int
    chunk: int = 0


def gpipe(stage: int, stages: int, micro_batches: int) -> list[PipelineTurn]:
    """All forward, then all backward, the last first (Huang et al. 2019, arXiv:1811.06965).

    >>> [(t.forward, t.micro_batch) for t in gpipe(0, 2, 2)]
    [(True, 0), (True, 1), (False, 1), (False, 0)]
    """
    every = range(micro_batches)
    return [PipelineTurn(True, m) for m in every] + [
        PipelineTurn(False, m) for m in reversed(every)
    ]


def one_forward_one_backward(stage: int, stages: int, micro_batches: int) -> list[PipelineTurn]:
    """As many forward ahead as there are stages behind, then one of each (PipeDream-Flush).

    Narayanan et al. 2021, arXiv:2104.04473, section 2.2.1.

    >>> "".join("BF"[t.forward] for t in one_forward_one_backward(0, 3, 4))
    'FFFBFBBB'
    """
    ahead = min(stages - stage - 1, micro_batches)
    turns = [PipelineTurn(True, m) for m in range(ahead)]
    for m in range(ahead, micro_batches):
        turns += [PipelineTurn(True, m), PipelineTurn(False, m - ahead)]
    return turns + [PipelineTurn(False, m) for m in range(micro_batches - ahead, micro_batches)]


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
    return PipelineTurn(forward, group * stages + place, chunk if forward else chunks - 1 - chunk)


def turns_of_stage(
    schedule: str, stage: int, stages: int, micro_batches: int, chunks: int
) -> list[PipelineTurn]:
    """Turns of one stage by the name of a schedule."""
    if schedule == "gpipe":
        return gpipe(stage, stages, micro_batches)
    if chunks > 1:
        return interleaved(stage, stages, micro_batches, chunks)
    return one_forward_one_backward(stage, stages, micro_batches)
