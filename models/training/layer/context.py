"""Context parallelism: how the ranks that share a sequence let every query meet every key it sees.

Round a ring (Liu et al. 2023, arXiv:2310.01889), keys and values go from rank to rank beside the
scores with those before.  They may be gathered instead (Llama 3, Dubey et al. 2024,
arXiv:2407.21783, section 3.3.2), or heads be shared while attention lasts (Ulysses, Jacobs et al.
2023, arXiv:2309.14509).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .operations import CONTEXT, RING, Operation, Split, Work, collective_work

Works = tuple[Work, ...]


class ScoreBlock(NamedTuple):
    """Part of the scores of a sequence: each of so many queries with each of so many keys.

    Parameters
    ----------
    causal : whether queries see only the keys before them, which are half of them
    """

    queries: int
    keys: int
    causal: bool


class BlockWorks(NamedTuple):
    """Ops of a block of scores."""

    forward: Work
    backward: Work


def attention_blocks(causal: bool, split: Split) -> list[ScoreBlock | None]:
    """Blocks that a rank computes, one for each rank whose keys it has in turn, its own first.

    None where its queries see none of them.  Balanced, the rank has the i-th part from the
    beginning and from the end: of any other rank's keys, all its queries see half, or half of them
    all.

    Examples
    --------
    >>> split = Split(batch=1, sequence=16, context=4)
    >>> [block.queries * block.keys for block in attention_blocks(True, split)]
    [16, 8, 8, 8]
    >>> from dataclasses import replace
    >>> attention_blocks(True, replace(split, balanced=False, place=1))[1:]
    [ScoreBlock(queries=4, keys=4, causal=False), None, None]
    """
    _, length = split.documents
    if split.context == 1 or split.context_by == "ulysses":
        return [ScoreBlock(length, length, causal)]
    here = length // split.context
    own, whole = ScoreBlock(here, here, causal), ScoreBlock(here, here, False)
    others = split.context - 1
    if not causal:
        return [own, *[whole] * others]
    if split.balanced:
        return [own, *[ScoreBlock(here, here // 2, False)] * others]
    return [own, *[whole] * split.place, *[None] * (others - split.place)]


def gathered_blocks(blocks: Sequence[ScoreBlock | None]) -> list[ScoreBlock | None]:
    """The same with all keys of the others at once.

    >>> half = ScoreBlock(4, 2, False)
    >>> gathered_blocks([ScoreBlock(4, 4, True), half, half, None])
    [ScoreBlock(queries=4, keys=4, causal=True), ScoreBlock(queries=4, keys=4, causal=False)]
    """
    own, *others = blocks
    keys = sum(block.keys for block in others if block)
    assert own is not None  # noqa: S101  its own keys are always seen
    return [own, ScoreBlock(own.queries, keys, False)] if keys else [own]


def ring_attention_works(
    works: Sequence[BlockWorks | None], numbers: int, split: Split
) -> tuple[Works, Works]:
    """Ops forward and backward while keys and values go round.

    Each message travels beside the block before it.  Backward, their gradients follow them, and go
    one step further, home.

    Parameters
    ----------
    numbers : of the keys and values of one rank
    """
    last = len(works) - 1
    forward: list[Work] = []
    backward: list[Work] = []
    for turn, block in enumerate(works):
        if turn < last:
            forward.append(_message("send", numbers, split, beside=block is not None))
        if block:
            forward.append(block.forward)
        if turn < last:
            forward.append(_message("recv", numbers, split))
        moved = (turn < last) * numbers + (turn > 0) * numbers
        if moved:
            backward.append(_message("send", moved, split, beside=block is not None))
        if block:
            backward.append(block.backward)
        if moved:
            backward.append(_message("recv", moved, split))
    if last:
        backward += [_message(direction, numbers, split) for direction in ("send", "recv")]
    return tuple(forward), tuple(backward)


def _message(direction: str, numbers: int, split: Split, beside: bool = False) -> Work:
    one = collective_work(
        f"{direction} keys, values", "write", RING, split.precision.activations, numbers
    )
    return one._replace(
        signature=one.signature.replace("collective:", f"{direction}:"), beside=int(beside)
    )


def gathered_attention_works(
    works: Sequence[BlockWorks | None], numbers: int, split: Split
) -> tuple[Works, Works]:
    """Ops forward and backward, with all keys and values gathered before, and again backward."""
    dtype, whole = split.precision.activations, numbers * split.context
    gather = collective_work("keys, values all-gather", "all-gather", CONTEXT, dtype, whole)
    again = gather._replace(label="keys, values all-gather again")
    home = collective_work("keys, values reduce-scatter", "reduce-scatter", CONTEXT, dtype, whole)
    run = [block for block in works if block]
    return (
        (gather, *(block.forward for block in run)),
        (again, *(block.backward for block in run), home),
    )


def heads_for_tokens(label: str, numbers: int, split: Split) -> Operation:
    """Exchange of a rank's part of each sequence, all heads, for whole sequences of some heads.

    Parameters
    ----------
    numbers : of the rank
    """
    dtype = split.precision.activations
    one = collective_work(f"{label} all-to-all", "all-to-all", CONTEXT, dtype, numbers)
    return Operation((one,), (one._replace(label=f"{label} all-to-all backward"),))
