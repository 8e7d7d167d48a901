"""Resize recorded DDP gradient buckets to the gradient shards of tensor-parallel ranks.

The gradients in a bucket follow from its size: buckets are filled in the order in which gradients
complete, or nearly so. (DDP keeps the order of its first iteration, in which a bias and its weight
may be swapped.) It is checked that DDP would fill the same buckets with the new sizes, by its rule
(``data_parallel.bucket_ends``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import TraceError
from ...sim.facts.graph import Graph
from ...sim.facts.ops import Kind
from ...sim.facts.signature import WIDTH, Operand, Signature, parse_signature
from ...sim.units import Bytes
from ..infer.ranks.gradients import Gradients
from .data_parallel import BUCKET, FIRST_BUCKET

LATE = 6
"""Gradients done last before a bucket went, some of which may be the next one's."""
AGAIN = "record one process (scale_to makes DDP of it)"
Sizes = NDArray[np.float64]


def resize_buckets(
    graph: Graph, gradients: Gradients, share: Mapping[int, Bytes], cap: Bytes | None = None
) -> Graph:
    """Resize the all-reduces of gradient buckets to the gradient shards of one rank.

    Parameters
    ----------
    gradients : recorded gradients
    share : size in B of each gradient that is split, by the row of its mark
    cap : bucket size limit in B; None for DDP's default

    Raises
    ------
    TraceError
        The collectives are not the buckets of the recorded gradients, or DDP would fill other
        buckets.
    """
    ops = graph.ops
    rows = np.flatnonzero((ops.kind == Kind.COLLECTIVE) & (ops.period >= 0))
    moved, signature, texts = ops.bytes.copy(), ops.signature.copy(), list(ops.signatures)
    duration = ops.duration.copy()
    for period in np.unique(ops.period[rows]).tolist():
        own = rows[ops.period[rows] == period].tolist()
        mine = np.flatnonzero(gradients.step == period)
        recorded = gradients.bytes[mine]
        of = zip(gradients.row[mine].tolist(), recorded.tolist(), strict=True)
        shard = np.array([share.get(row, size) for row, size in of])
        held = bucket_members(ops.bytes[own], recorded, shard)
        if held is None:
            sizes = ", ".join(f"{ops.bytes[r]:.0f} B" for r in own[:4])
            raise TraceError(
                f"{graph.name}: its collectives ({sizes}) are not the buckets of its gradients in "
                f"their order, so their new sizes are unknown; {AGAIN}"
            )
        _refuse_other_buckets(graph.name, [shard[m] for m in held], cap)
        for row, members in zip(own, held, strict=True):
            told = parse_signature(ops.signature_text(row))
            moved[row], duration[row] = float(shard[members].sum()), np.nan
            operand = Operand(told.dtype, (round(moved[row] / WIDTH[told.dtype]),))
            texts.append(str(Signature("collective", told.op, (operand,))))
            signature[row] = len(texts) - 1
    changed = ops.replace(bytes=moved, signature=signature, duration=duration)
    return graph.with_ops(replace(changed, signatures=tuple(texts)))


def bucket_members(sizes: Sizes, recorded: Sizes, shard: Sizes) -> list[list[int]] | None:
    """Indices of the gradients in each bucket; None if the sizes do not determine them.

    Parameters
    ----------
    sizes : recorded bucket sizes in B, shape (buckets,)
    recorded, shard : recorded size and one rank's size of each gradient in B, in order of
        completion, shape (gradients,)

    Examples
    --------
    >>> recorded = np.array([8.0, 4, 16, 2, 32])
    >>> bucket_members(np.array([24.0, 38]), recorded, recorded / 2)
    [[0, 2], [1, 3, 4]]
    >>> bucket_members(np.array([11.0, 51]), recorded, recorded / 2) is None
    True
    """
    left, held = list(range(len(recorded))), []
    for size in sizes.tolist():
        filled = np.cumsum(recorded[left])
        count = int(np.searchsorted(filled, size)) + 1
        if count > len(left):
            return None
        late = _gradients_of_next_bucket(
            left[:count], float(filled[count - 1]) - size, recorded, shard
        )
        if late is None:
            return None
        held.append([i for i in left[:count] if i not in late])
        left = [*late, *left[count:]]
    return held if not left else None


def _gradients_of_next_bucket(
    done: list[int], excess: float, recorded: Sizes, shard: Sizes
) -> tuple[int, ...] | None:
    """Indices of one or two late gradients that belong to the next bucket, and not to this one.

    `done` are the gradients completed so far, and `excess` the bytes by which they exceed the
    bucket. () if `excess` is 0; None if no such gradients exist, or if several choices differ in
    their shard size.
    """
    if not excess:
        return ()
    fit = [
        some
        for n in (1, 2)
        for some in combinations(done[-LATE:], n)
        if recorded[list(some)].sum() == excess
    ]
    alike = {float(shard[list(some)].sum()) for some in fit}
    return fit[-1] if len(alike) == 1 else None


def _refuse_other_buckets(name: str, buckets: list[Sizes], cap: Bytes | None) -> None:
    """Refuse buckets that DDP would fill with other gradients."""
    limit = FIRST_BUCKET if cap is None else cap
    for number, sizes in enumerate(buckets[:-1], 1):
        if not sizes.sum() - sizes[-1] < limit <= sizes.sum():
            raise TraceError(
                f"{name}: bucket {number} of {len(buckets)} would hold {sizes.sum():.0f} B on each "
                f"rank, and DDP would fill it up to {limit:.0f} B with other gradients; set the "
                f"cap that it was recorded with (workload.scale_to.bucket), or {AGAIN}"
            )
        limit = BUCKET if cap is None else cap
