"""Gradient and weight exchange among data-parallel ranks: buckets, and ZeRO volumes."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ....sim.facts.signature import WIDTH, Operand, Signature
from ..layer.operations import (
    Operation,
    Shape,
    Work,
    collective_work,
    memory_op,
    work_with_operands,
)
from ..layer.precision import Precision
from .parallel_plan import ParallelPlan

DATA, EXPERT_DATA = "data", "expert data"  # groups of ranks that hold the same weights


def gradient_reduction(plan: ParallelPlan, group: str, numbers: int, label: str) -> Work:
    """All-reduce of gradients; a reduce-scatter if ZeRO shards their result.

    >>> plan = ParallelPlan(batch=8, sequence=8, data=8, zero=1)
    >>> gradient_reduction(plan, "data", 10, "x").signature
    'collective:reduce-scatter fp32[10]'
    """
    name = "reduce-scatter" if plan.zero else "all-reduce"
    dtype = plan.precision.communication
    width = plan.precision.width(dtype)
    return collective_work(f"{label} {name}", name, group, dtype, numbers, width=width)


def weight_gather(
    plan: ParallelPlan, group: str, numbers: int, label: str, dtype: str = ""
) -> Work:  # fmt: skip
    """All-gather of weights that ZeRO shards, or that were updated in shards.

    Parameters
    ----------
    dtype : element type of the stored weights; default: that of ``weights``
    """
    dtype = dtype or plan.precision.weights
    width = plan.precision.width(dtype, weights=True)
    return collective_work(f"{label} all-gather", "all-gather", group, dtype, numbers, width=width)


def group_of(plan: ParallelPlan, operation: Operation) -> str:
    """Name of the group of ranks that hold the same weights of an operation.

    Experts that are not sharded over ranks count as ordinary weights (Megatron-LM,
    ``param.allreduce``).
    """
    return EXPERT_DATA if operation.expert and plan.expert > 1 else DATA


def bucket_copy_in_works(plan: ParallelPlan, operation: Operation) -> tuple[Work, ...]:
    """Ops that scale each gradient of an operation into its bucket, as torch's DDP does.

    >>> from ..layer.operations import Operation
    >>> plan = ParallelPlan(batch=8, sequence=8, data=8, reducer="ddp")
    >>> linear = Operation(parameters=((4, 2), (2,)))
    >>> [work.signature for work in bucket_copy_in_works(plan, linear)]
    ['compute:aten::mul fp32[4x2] fp64[]', 'compute:aten::mul fp32[2] fp64[]']
    """
    if plan.reducer != "ddp" or replica_count(plan, group_of(plan, operation)) == 1:
        return ()
    dtype = plan.precision.gradients
    return tuple(
        work_with_operands("gradient into its bucket", "aten::mul",
                      (one := Operand(dtype, shape), Operand("fp64", ())), one.bytes)
        for shape in operation.parameters
    )  # fmt: skip


def bucket_copy_out_works(plan: ParallelPlan, shapes: Iterable[Shape]) -> list[Work]:
    """Ops that copy the gradients of a bucket back once it is reduced."""
    return [_copy_work("gradient from its bucket", plan.precision.gradients, s) for s in shapes]


def batch_norm_broadcasts(operations: Iterable[Operation]) -> list[Work]:
    """Broadcasts of batch-norm statistics to all ranks before a forward pass.

    torch's DDP sends all statistics of one element type in one buffer (``broadcast_buffers``).

    >>> [work.label for work in batch_norm_broadcasts([Operation(channels=8)])][:2]
    ['statistics of norms joined', 'statistics of norms']
    """
    channels = [operation.channels for operation in operations if operation.channels]
    if not channels:
        return []
    shapes: dict[str, list[Shape]]
    shapes = {"fp32": [(n,) for n in channels for _ in range(2)], "int64": [()] * len(channels)}
    found = []
    for dtype, each in shapes.items():
        numbers = sum(map(math.prod, each))
        size = float(WIDTH[dtype] * numbers)
        found += [
            memory_op("statistics of norms joined", "aten::cat", dtype, [(numbers,)], size),
            collective_work("statistics of norms", "broadcast", DATA, dtype, numbers),
        ]
    copies = [
        _copy_work("statistics of a norm", dtype, s) for dtype in shapes for s in shapes[dtype]
    ]
    return [*found, *copies]


def _copy_work(label: str, dtype: str, shape: Shape) -> Work:
    one = Operand(dtype, shape)
    text = str(Signature("compute", "aten::copy_", (one, one)))
    return Work(label, text, 0.0, 2.0 * one.bytes)


def replica_count(plan: ParallelPlan, group: str) -> int:
    """Number of ranks that hold the same weights; DualPipe counts the ranks of both stages.

    >>> replica_count(ParallelPlan(batch=8, sequence=8, data=8, expert=2), EXPERT_DATA)
    4
    """
    twins = 2 if plan.schedule == "dualpipe" else 1
    return twins * (plan.copies if group == DATA else plan.copies // plan.expert)


def bucket_size(plan: ParallelPlan, part: int) -> float:
    """Number of parameters at which a bucket of a model part is closed.

    Only the first part has more than one bucket, since no other stage waits for its forward and
    backward pass. Megatron-LM, core/distributed/distributed_data_parallel.py: ``bucket_size =
    None`` for pipeline ranks above 0; training/training.py: ``disable_bucketing`` for chunks after
    the first. ZeRO-3 exchanges one layer at a time in all parts.

    Parameters
    ----------
    part : index of the part as in ``model_parts_of_stage``; with DualPipe a part is on two stages

    Examples
    --------
    >>> plan = ParallelPlan(batch=8, sequence=8, data=2, pipeline=2, chunks=2, zero=1, bucket=100)
    >>> [bucket_size(plan, part) for part in range(plan.parts)]
    [100, inf, inf, inf]
    """
    if plan.zero == 3:
        return 1
    return math.inf if part else plan.bucket


def ddp_buckets(types: Precision) -> tuple[int, int]:
    """Default bucket sizes of torch's DDP, in parameters: of the first bucket, and of the others.

    torch.distributed: ``_DEFAULT_FIRST_BUCKET_BYTES``, 1 MiB, and DistributedDataParallel's
    ``bucket_cap_mb``, 25 MiB.

    >>> from ..layer.precision import PRECISIONS
    >>> ddp_buckets(PRECISIONS["fp32"])
    (262144, 6553600)
    """
    width = WIDTH[types.gradients]
    return int(2**20 / width), int(25 * 2**20 / width)


def fill_buckets(sizes: Iterable[int], most: float, first: float = 0) -> list[list[int]]:
    """Indices of consecutive gradients in each bucket; a bucket is closed once it holds ``most``.

    This is the rule of PyTorch's DDP, in the order in which gradients became ready in its first
    step (Li et al. 2020, arXiv:2006.15704, section 3.2.3), and of Megatron-LM, in reverse parameter
    order (core/distributed/param_and_grad_buffer.py).

    Parameters
    ----------
    sizes : gradient size of each parameter
    first : size of the first bucket; 0 for the size of the others

    Examples
    --------
    >>> fill_buckets([5, 5, 5, 20, 1], 10)
    [[0, 1], [2, 3], [4]]
    >>> fill_buckets([5, 5, 5, 20, 1], 10, first=5)
    [[0], [1, 2], [3], [4]]
    """
    found: list[list[int]] = []
    held, inside, limit = 0, [], first or most
    for number, size in enumerate(sizes):
        inside.append(number)
        held += size
        if held >= limit:
            found.append(inside)
            held, inside, limit = 0, [], most
    return [*found, inside] if inside else found
