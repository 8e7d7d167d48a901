"""Check that no answer exceeds the peak flop rate of its GPUs."""

from __future__ import annotations

import numpy as np

from ....sim.errors import BackendError, NotKeptError
from ....sim.facts.ops import Kind
from ....sim.record.distribution import sample_array
from ....sim.units import seconds
from ..building.op_rules import changed_ops_by_rule
from ..variants.variants import VariantResults

SHARE = "hfu"  # metric: fraction of the peak of all GPUs


def require_flops_below_peak(results: VariantResults) -> None:
    """Raise an error if ops compute faster than their GPUs can, unless ``ops`` rules changed them.

    Raises
    ------
    BackendError
        The message names the op with the highest rate, whose time is wrong.
    """
    reached = float(np.median(sample_array(results.samples.get(SHARE, np.zeros(1)))))
    if reached <= 1 or changed_ops_by_rule(results.point.built.graphs):
        return
    head = f"{SHARE} of {results.name}: {reached:.3g} times the peak of all GPUs"
    cure = "correct the table, recording or measured step that gives this time"
    try:
        detail = results.result.detail
    except NotKeptError:
        raise BackendError(f"{head}: run with run.keep: ops to see which op; {cure}") from None
    took = seconds(detail.columns.end - detail.columns.start, detail.tick)
    computed = np.flatnonzero((detail.ops.kind == Kind.COMPUTE) & (detail.ops.flop > 0))
    row = computed[np.argmax(detail.ops.flop[computed] / np.maximum(took[computed], detail.tick))]
    raise BackendError(
        f"{head}: '{detail.ops.signature_text(row)}' takes {took[row]:.3g} s for "
        f"{detail.ops.flop[row]:.3g} flop; {cure}"
    )
