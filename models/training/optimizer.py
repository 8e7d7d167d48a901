"""End of a step: the gradients' norm, Adam on a rank's share of the weights, its result shared."""

from __future__ import annotations

from collections.abc import Iterator

from ...sim.signature import WIDTH
from .gradients import DATA, EXPERT_DATA, gathering, replicas
from .operations import Work, streamed
from .parallel_plan import ParallelPlan

MODULE = "optimizer"


def share(plan: ParallelPlan, group: str, weights: int) -> int:
    """Parameters that a rank updates: its share of the copies where ZeRO shares them.

    >>> share(ParallelPlan(batch=8, sequence=8, data=8, zero=1), DATA, 81)
    11
    """
    return -(-weights // replicas(plan, group)) if plan.zero else weights


def optimizer_works(plan: ParallelPlan, own: int, expert: int) -> Iterator[Work]:
    """Ops after the last gradient.

    Parameters
    ----------
    own, expert : parameters on the rank, of all but experts and of experts
    """
    types = plan.precision
    here = share(plan, DATA, own) + share(plan, EXPERT_DATA, expert)
    yield streamed("gradient norm", "aten::linalg_vector_norm", types.gradients, [(here,)], 0.0)
    passes = 1 if types.has_master else 2  # written from the copy, or read and written
    each = WIDTH[types.gradients] + 2 * types.optimizer_bytes + passes * WIDTH[types.weights]
    adam = streamed("adam", "aten::_fused_adamw_", types.master, [(here,)], 0.0)
    yield adam._replace(bytes=float(here * each))
    if plan.zero in (1, 2):
        for group, numbers in ((DATA, own), (EXPERT_DATA, expert)):
            if numbers and replicas(plan, group) > 1:
                yield gathering(plan, group, numbers, "weights")
    if types.products != types.weights:  # once straight and once transposed
        cast = 2.0 * WIDTH[types.products] * (own + expert)
        yield streamed(f"weights to {types.products}", "aten::_to_copy", types.weights,
                       [(own + expert,)], cast)  # fmt: skip
