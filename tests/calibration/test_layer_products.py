"""Products of a layer, which no loop repeats, beside the roofline of the catalog."""

import numpy as np
from foretrace.calibration.fit.gpus import vidur_rows
from foretrace.calibration.fit.kernels import gpu_roofline
from foretrace.calibration.rows.kernel_rows import set_aside
from foretrace.models.calibration.parameter_search import PredictionErrors
from foretrace.sim.facts.ops import Ops


def test_no_product_of_a_layer_begins_with_a_burst(data):
    """Vidur times layers, not loops: its products of Qwen-72B on H100, set aside, scored once."""
    row = vidur_rows("h100_sxm", lambda source: set_aside("product", source))
    long = (row["product"] / 989.4e12 > 0.4 * row["s"]) & (row["s"] > 50e-6)
    sizes = zip(*(row[axis][long].astype(int).tolist() for axis in "mnk"), strict=True)
    texts = tuple(f"compute:aten::mm bf16[{m}x{k}] bf16[{k}x{n}]" for m, n, k in sizes)
    ops = Ops.of(
        flop=row["product"][long], bytes=row["bytes"][long],
        signature=np.arange(len(texts)), signatures=texts,
    )  # fmt: skip
    step, loop = (
        PredictionErrors.of(
            gpu_roofline("h100-sxm5-80g", caches=caches).timing(ops).fixed, row["s"][long]
        )
        for caches in ("step", "alone")
    )
    assert len(texts) == 2606
    assert step.median < 0.07 < 0.09 < loop.median
    assert abs(step.bias) < 0.02 < 0.08 < -loop.bias
