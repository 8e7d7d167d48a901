"""Context parallelism: how ranks that share a sequence combine their queries with all keys.

In ring attention (Liu et al. 2023, arXiv:2310.01889), keys and values move from rank to rank while
scores with the previous ones are computed. Alternatively, they are gathered (Llama 3, Dubey et al.
2024, arXiv:2407.21783, section 3.3.2), or ranks divide heads during attention (Ulysses, Jacobs et
al. 2023, arXiv:2309.14509).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .operations import CONTEXT, RING, Operation, Split, Work, collective_work

Works = tuple[Work, ...]


class ScoreBlock(NamedTuple):
    """Block of attention scores: a number of queries times a number of keys.

    Parameters
    ----------
    causal : True if queries attend only to earlier keys, which is half of the block
    """

    queries: int
    keys: int
    causal: bool


class BlockWorks(NamedTuple):
    """Forward and backward ops of a block of scores."""

    forward: Work
    backward: Work


def attention_blocks(causal: bool, split: Split) -> list[ScoreBlock | None]:
    """Blocks of scores that a rank computes, one per rank whose keys it receives, its own first.

    An entry is None if the rank's queries do not attend to those keys. With balanced parts, the
    rank has the i-th part from the start and from the end of the sequence: for the keys of another
    rank, either all its queries attend to half of them, or half of its queries to all of them.

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
    """Blocks of scores if the keys of all other ranks are available at once.

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
    """Forward and backward ops of ring attention.

    Each message overlaps with the block before it. In the backward pass, the gradients of keys and
    values follow them, and move one more step to return to their rank.

    Parameters
    ----------
    numbers : number of elements of the keys and values of one rank
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
    """Forward and backward ops of attention that gathers all keys and values, in both passes."""
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
    """All-to-all from a part of each sequence with all heads to complete sequences with some heads.

    Parameters
    ----------
    numbers : number of elements on the rank
    """
    dtype = split.precision.activations
    one = collective_work(f"{label} all-to-all", "all-to-all", CONTEXT, dtype, numbers)
    return Operation((one,), (one._replace(label=f"{label} all-to-all backward"),))
