"""Kernels of a model that no fit saw (Qwen-72B of vidur-opdb), and how well their doubt holds.

Bars are what was reached, rounded up (``docs/accuracy.md``, Kernels that are no GEMM).
"""

from collections import defaultdict

import numpy as np
import pytest
from foretrace.models.compute.kernel_work import kernel_work
from foretrace.models.compute.kernels import REGIMES, GpuDatasheet, load_families
from foretrace.models.compute.op_database_rows import measured_rows
from foretrace.scenarios.config.catalog import installed
from foretrace.sim.facts.doubt import Doubt
from foretrace.sim.units import quantity

BARS = {
    "norm": 0.055, "activation": 0.03, "rope": 0.055, "elementwise": 0.065, "gather": 0.06,
    "gather of few": 0.05,
}  # fmt: skip
GPUS = {"a100": "a100-sxm4-80g", "h100": "h100-sxm5-80g"}


def chip(name):
    entry = installed().entry("gpu", name)
    own = entry["chip"]
    clock, cache = quantity(own["clock"].value, "1/s"), quantity(own["cache"].value, "B")
    return GpuDatasheet(
        own["processors"].value, clock, quantity(entry["bandwidth"].value, "B/s"), cache
    )


def judged(data, gpu, constants):
    """By family: (predicted, measured, whether the 90 % interval holds)."""
    file = data / "vidur-opdb" / "compute" / gpu / "Qwen" / "Qwen-72B" / "mlp.csv.gz"
    by_family = defaultdict(list)
    for row in measured_rows(file):
        by_family[row.shape.family].append(row)
    families, found = load_families(constants), {}
    for name in BARS:
        work = np.array([kernel_work(r.shape) for r in by_family[name]], float)
        parts = families[name].time_parts(work, chip(GPUS[gpu]), np.ones(len(work)))
        said, took = parts.sum(axis=0), np.array([r.seconds for r in by_family[name]])
        told = families[name].evidence.quantiles
        ends = [Doubt(name, r, tuple(told.get(r, told[""]))).interval() for r in REGIMES]
        low, high = np.array(ends)[parts.argmax(axis=0)].T
        found[name] = said, took, (said * low <= took) & (took <= said * high)
    return found


@pytest.mark.parametrize("gpu", GPUS)
def test_kernels_of_a_model_that_no_fit_saw(data, gpu):
    for name, (said, took, inside) in judged(data, gpu, GPUS[gpu]).items():
        assert np.median(np.abs(said / took - 1)) <= BARS[name], name
        assert inside.mean() >= 0.8, name


@pytest.mark.parametrize("gpu", GPUS)
def test_kernels_by_the_constants_of_the_other_gpu(data, gpu):
    other = next(n for g, n in GPUS.items() if g != gpu)
    for name, (said, took, _) in judged(data, gpu, other).items():
        assert np.median(np.abs(said / took - 1)) <= 0.2, name
