"""Plan to record all kernel families of one GPU in about two hours, most important ops first."""

from __future__ import annotations

from collections.abc import Iterable

from ....hil.measuring.plan import PlanPiece, RecordingPlan
from ....hil.measuring.work_list import WorkList
from ....hil.sample import AFTER, Request
from ....models.compute.demand import demand
from ....models.compute.kernel_work import kernel_work
from ....models.compute.op_shape import op_shape
from .gpu_shapes import LISTS, NEIGHBOURS, ops_timed_after_others, signatures_of_list

DRIVER = "torch"
HOURS = 2.0
BATCH, BLOCKS, WARM = 20, 6, 4  # repeats; batches of a start; warm-up beside them
FEWEST, MOST = 1, 8  # rounds
BUSY = 4.0  # cores that others may use: the GPU does the work
SLOWEST = {"fp32": 2e13, "fp64": 1e13}  # flop/s of a GPU that is slower than most; of others
FLOPS, BANDWIDTH, PCIE = 2e14, 1e12, 1e10  # flop/s, B/s, and B/s of copies from and to the host
OVERHEAD, BEGIN, EACH = 5e-3, 20.0, 0.02  # s of a batch, of a start, and to make an op's operands
COMPILED = 3.0  # s to make a kernel
MARGIN, LONGEST = 4.0, 600.0  # what a piece may take: so many times what is thought, and s more


def gpu_plan(device: str, hours: float = HOURS) -> RecordingPlan:
    """Recording plan for one GPU, with as many rounds as fit into the duration, at least one.

    Parameters
    ----------
    device : torch device, such as ``cuda:0``
    hours : approximate total duration in hours

    Examples
    --------
    >>> plan = gpu_plan("cuda:0")
    >>> [p.name for p in plan.pieces][:3], 1.5 < plan.seconds / 3600 <= 2
    (['launches', 'products', 'sums'], True)
    """
    pieces = [_piece(name, _alone(name), device) for name in LISTS]
    pieces.append(_piece("in place", [_after(s) for s in ops_timed_after_others()], device))
    once = sum(p.seconds for p in pieces)
    return RecordingPlan(tuple(pieces), min(MOST, max(FEWEST, int(hours * 3600 / once))))


def _alone(name: str) -> list[Request]:
    return [Request(s, BATCH) for part in signatures_of_list(name) for s in part]


def _after(signature: str) -> Request:
    return Request(signature, BATCH, AFTER, NEIGHBOURS)


def _piece(name: str, requests: list[Request], device: str) -> PlanPiece:
    seconds = round(estimated_seconds(requests), 1)
    work = WorkList(
        DRIVER,
        tuple(requests),
        {"device": device, "memory": True},
        starts=1,
        most_starts=1,
        blocks=BLOCKS,
        seconds=MARGIN * seconds + LONGEST,
        busy=BUSY,
        note=name,
    )
    return PlanPiece(work, seconds)


def estimated_seconds(requests: Iterable[Request]) -> float:
    """Approximate time of one round of ops in s, on a GPU that is slower than most.

    >>> round(estimated_seconds([Request("copy:h2d uint8[100000000]", 20)]))
    24
    """
    every = BEGIN
    for request in requests:
        once = sum(_seconds_of_one(s) for s in (request.signature, *request.preceding))
        every += COMPILED if ":inductor::" in request.signature else EACH
        every += (BLOCKS + WARM) * (request.n * once + OVERHEAD)
    return every


def _seconds_of_one(signature: str) -> float:
    asked = demand(signature)
    dtype = signature.partition(" ")[2].partition("[")[0].rpartition(" ")[2]
    shape = op_shape(signature)
    work = kernel_work(shape) if shape is not None else None
    flop = asked.flop if work is None else work.flop or work.blocks * work.depth * work.step
    rate = PCIE if signature.startswith(("copy:h2d", "copy:d2h")) else BANDWIDTH
    return flop / SLOWEST.get(dtype, FLOPS) + (work.bytes if work else asked.bytes) / rate
