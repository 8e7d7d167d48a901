"""End of a step: gradient norm, Adam on a rank's shard of the weights, and gather of the result.

With an offloaded optimizer, gradients move to the host and weights back, bucket by bucket, as in
ZeRO-Offload (Ren et al. 2021, arXiv:2101.06840) and Megatron-LM's ``optimizer-cpu-offload``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....sim.facts.signature import WIDTH, Operand, Signature
from ..layer.operations import Work, memory_op, quantize_works
from ..layer.precision import SCALED
from ..plan.gradients import DATA, EXPERT_DATA, replica_count, weight_gather
from ..plan.parallel_plan import ParallelPlan

MODULE = "optimizer"


def updated_share(plan: ParallelPlan, group: str, weights: int) -> int:
    """Number of parameters of one group that a rank updates: its ZeRO shard, or all.

    >>> updated_share(ParallelPlan(batch=8, sequence=8, data=8, zero=1), DATA, 81)
    11
    """
    return -(-weights // replica_count(plan, group)) if plan.zero else weights


def updated_parameters(plan: ParallelPlan, dense: int, expert: int) -> int:
    """Total number of parameters that a rank updates.

    Parameters
    ----------
    dense, expert : number of parameters on the rank outside experts, and in experts
    """
    return updated_share(plan, DATA, dense) + updated_share(plan, EXPERT_DATA, expert)


def norm_work(plan: ParallelPlan, dense: int, expert: int) -> Work:
    """Op that computes the gradient norm of a rank's shard."""
    here = updated_parameters(plan, dense, expert)
    norm = memory_op("gradient norm", "aten::linalg_vector_norm", plan.precision.gradients,
                    [(here,)], 0.0)  # fmt: skip
    return norm._replace(awaited=True)


def adam_work(plan: ParallelPlan, dense: int, expert: int) -> Work:
    """Adam update of a rank's shard on the GPU."""
    types, here = plan.precision, updated_parameters(plan, dense, expert)
    passes = 1 if types.has_master else 2  # written from the master copy, or read and written
    each = WIDTH[types.gradients] + 2 * types.optimizer_bytes
    each += passes * types.width(types.weights, weights=True)
    adam = memory_op("adam", "aten::_fused_adamw_", types.master, [(here,)], 0.0)
    return adam._replace(bytes=float(here * each))


def host_works(plan: ParallelPlan, numbers: int) -> tuple[Work, Work, Work]:
    """Update of ``numbers`` parameters on the host: gradients down, Adam, weights up.

    >>> works = host_works(ParallelPlan(batch=8, sequence=8, offload=True), 1000)
    >>> [(work.signature, work.bytes) for work in works]
    [('copy:d2h fp32[1000]', 4000.0), ('host:adam fp32[1000]', 30000.0), \
('copy:h2d bf16[1000]', 2000.0)]
    """
    types = plan.precision
    gradients, weights = (Operand(t, (numbers,)) for t in (types.gradients, types.weights))
    each = WIDTH[types.gradients] + 2 * types.host_bytes
    each += types.width(types.weights, weights=True) * types.has_master
    adam = Signature("host", "adam", (Operand(types.master, (numbers,)),))
    return (
        Work("gradients to the host", str(Signature("copy", "d2h", (gradients,))), 0.0,
             float(gradients.bytes)),
        Work("adam on the host", str(adam), 0.0, float(numbers * each)),
        Work("weights from the host", str(Signature("copy", "h2d", (weights,))), 0.0,
             float(weights.bytes)),
    )  # fmt: skip


def offloaded_works(
    plan: ParallelPlan, dense: int, expert: int
) -> Iterator[tuple[Work, Work, Work]]:
    """Offloaded updates of a rank's shard by bucket; buckets overlap with each other."""
    left = updated_parameters(plan, dense, expert)
    while left:
        yield host_works(plan, min(left, plan.bucket))
        left -= min(left, plan.bucket)


def gather_works(plan: ParallelPlan, dense: int, expert: int) -> Iterator[Work]:
    """All-gathers after the update, of weights that were updated in shards."""
    if plan.zero in (1, 2):
        for group, numbers in ((DATA, dense), (EXPERT_DATA, expert)):
            if numbers and replica_count(plan, group) > 1:
                yield weight_gather(plan, group, numbers, "weights")


def cast_works(plan: ParallelPlan, numbers: int) -> Iterator[Work]:
    """Casts or quantization of updated weights to the GEMM type; none if types are equal.

    >>> from ..layer.precision import PRECISIONS
    >>> plan = ParallelPlan(batch=8, sequence=8, precision=PRECISIONS["mxfp8"])
    >>> [work.signature for work in cast_works(plan, 100)]
    ['compute:fused::quantize to=fp8 block=32 bf16[1x100]']
    """
    types = plan.precision
    if not numbers:
        return
    if types.products in SCALED or types.weights in SCALED:
        yield from quantize_works("weights", 1, numbers, types, types.weights, types.products,
                             weights=True)  # fmt: skip
    elif types.products != types.weights:
        cast = float(WIDTH[types.products] * numbers)
        yield memory_op(f"weights to {types.products}", "aten::_to_copy", types.weights,
                       [(numbers,)], cast)  # fmt: skip
