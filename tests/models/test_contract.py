"""Every backend that models/ registers keeps the contract of the seam."""

import importlib
import inspect
import pkgutil
from dataclasses import replace

import numpy as np
import pytest
from foretrace import models
from foretrace.models.compute.chain import Chain
from foretrace.models.compute.cross_gpu_scaling import CrossGpuScaling, GpuModel
from foretrace.models.compute.families import Families, FittedLine
from foretrace.models.compute.gpu_groups import Peaks
from foretrace.models.compute.table import MeasuredTable
from foretrace.models.memory.memory import Memory
from foretrace.models.network.collective.library import Protocol
from foretrace.models.network.part.link import Link
from foretrace.models.network.topology.topology import GpuSpec, NodeSpec, cluster
from foretrace.plugins.gloo import fabric as registered  # noqa: F401  adds its backend
from foretrace.plugins.layer_profile.backend import LayerProfile
from foretrace.plugins.layer_profile.profile_rows import ProfileKey
from foretrace.sim.errors import BackendError
from foretrace.sim.facts.backend import BACKENDS, Backend, Timing
from foretrace.sim.facts.csr import Csr
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.testing import check_backend

for _module in pkgutil.walk_packages(models.__path__, "foretrace.models."):
    importlib.import_module(_module.name)

SHIPPED = ("foretrace.models.", "foretrace.plugins.")
OURS = sorted(n for n, c in BACKENDS.items() if c.__module__.startswith(SHIPPED))
SYSTEM = cluster(
    1,
    NodeSpec(
        gpus=4,
        gpu=GpuSpec(hbm=Memory(bandwidth=1e12, latency=0.0)),
        dram=Memory(bandwidth=1e11, latency=0.0),
        gpu_link=Link(bandwidth=1e11, latency=1e-6),
        host_link=Link(bandwidth=1e10, latency=1e-6),
    ),
)
TEXTS = ("compute:mm bf16[8x8]", "compute:mm bf16[8x16]", "compute:mm fp8[64x64]")


def on(name, members=None, **columns):
    """Ops asked of one component, 24 rows."""
    ops = Ops.of(**{"signatures": TEXTS, "signature": np.arange(24) % 3} | columns)
    return ops.with_placement(SYSTEM, SYSTEM.number(name), members)


GPU = on(
    "node0.gpu1", flop=np.linspace(0, 1e12, 24), bytes=np.linspace(0, 1e9, 24),
    duration=np.linspace(0, 1e-3, 24),
)  # fmt: skip
BYTES = on("node0.gpu0.tx", kind=Kind.SEND, bytes=np.linspace(0, 1e9, 24))
COPIES = on(
    "node0.gpu2.dma", kind=Kind.COPY, bytes=np.linspace(0, 1e9, 24),
    signatures=("copy:h2d", "copy:d2h", "copy:d2d"),
)  # fmt: skip
GROUPS = on(
    "fabric",
    Csr.of([[SYSTEM.number(f"node0.gpu{g}") for g in range(2 + i % 3)] for i in range(24)]),
    kind=[Kind.COLLECTIVE] * 20 + [Kind.SEND] * 4, bytes=np.linspace(0, 1e9, 24),
    signatures=("collective:all-reduce fp32[1]", "collective:all-to-all fp32[1]",
                "collective:barrier"),
)  # fmt: skip

PRODUCTS = on(
    "node0.gpu1",
    signatures=("compute:aten::mm fp32[2x2] fp32[2x2]", "compute:aten::bmm fp32[2x8x8] fp32[2x8x8]",
                "compute:aten::mm fp32[64x64] fp32[64x64]"),
)  # fmt: skip

CASES = {
    "copy": (dict(launch=1e-6), COPIES),
    "fabric": (dict(ll=Protocol(launch=1e-6)), GROUPS),
    "gloo": (dict(message=2e-6), GROUPS),
    "host": (dict(speed=1.5), GPU),
    "host-stream": ({}, on("node0.host", kind=Kind.HOST, bytes=np.linspace(0, 1e9, 24))),
    "link": (dict(bandwidth=1e9, latency=1e-6), BYTES),
    "service": (dict(time=1e-6, rate=1e9), BYTES),
    "lossy-link": (dict(bandwidth=1e9, latency=1e-6, loss=0.01, round_trip=1e-5), BYTES),
    "memory": (dict(bandwidth=1e9, latency=1e-6, in_flight=640), BYTES),
    "nic": (dict(bandwidth=1e9, latency=1e-6), BYTES),
    "recorded": ({}, GPU),
    "roofline": (dict(bandwidth=1e12, peaks=Peaks(bf16=1e14, fp8=2e14), shared=True), GPU),
    "switch": (dict(bandwidth=1e9, latency=1e-6, ports=4), BYTES),
}


@pytest.mark.parametrize("name", OURS)
def test_a_registered_backend_keeps_its_contract(name):
    if name == "table":
        check_backend(lambda: MeasuredTable.of(TEXTS, [1e-6, 2e-6, 3e-6]), GPU)
        return
    if name == "chain":
        table = MeasuredTable.of(TEXTS[:1], [1e-6])
        shared = BACKENDS["roofline"](**CASES["roofline"][0])
        check_backend(lambda: Chain.of(table, shared), GPU)
        return
    if name == "layer-profile":
        text = "compute:layer::forward of=dense tensor=1 fp32[2x8x4]"
        same = replace(GPU, signature=np.zeros(24, np.int32), signatures=(text,))
        times = {ProfileKey("forward", "dense"): {(2, 1): 1e-6}}
        check_backend(lambda: LayerProfile.of(times, hidden=4, sequence=8), same)
        return
    if name == "carried":
        slow = GpuModel.of("a100-sxm4-80g", {"bandwidth": 2e12, "peaks": {"bf16": 3e14}})
        quick = GpuModel.of("h100-sxm5-80g", {"bandwidth": 3e12, "peaks": {"bf16": 1e15}})
        known = GPU.take_with_placement(np.flatnonzero((GPU.signature < 2) & (GPU.bytes > 0)))
        table = dict(signatures=tuple(f"{t} bf16[8x8]" for t in TEXTS))
        check_backend(lambda: CrossGpuScaling(here=slow, there=quick), replace(known, **table))
        return
    if name == "families":
        line = FittedLine(
            1e-6, flop_rate=1e12, ragged_rate=1e11, byte_rate=1e10, rate_beyond=1e10, cache=64.0,
            factors={"aten::mm": 1.5}, launches={"aten::mm": 2e-6}, wrong=0.2,
        )  # fmt: skip
        check_backend(lambda: Families.of({"gemm": line}), PRODUCTS)
        return
    assert name in CASES, f"{name} has no case here: add its settings and some ops"
    settings, ops = CASES[name]
    check_backend(lambda: BACKENDS[name](**settings), ops)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda n: np.zeros(n), r"returned a ndarray; return Timing\.of\(seconds\)"),
        (lambda n: None, "returned a NoneType; return"),
        (lambda n: Timing.of([0.0] * 3), "fixed has 3 values for 24 ops; return one per op"),
        (lambda n: Timing.of([-1.0] * n), r"fixed of op 0 .* is -1\.0; it must be finite"),
    ],
)
def test_an_answer_that_is_none_is_refused(answer, told):
    class Mine(Backend):
        source = "the test"

        def timing(self, ops, now=0.0):
            return answer(len(ops))

    with pytest.raises(BackendError, match=told):
        check_backend(Mine, GPU)


@pytest.mark.parametrize("name", OURS)
def test_every_setting_has_a_type_and_a_line_of_help(name):
    """The constructor is the schema of a scenario."""
    cls = BACKENDS[name]
    for parameter in inspect.signature(cls).parameters.values():
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert parameter.annotation is not parameter.empty
        assert parameter.name in (inspect.getdoc(cls) or "")


@pytest.mark.parametrize("name", OURS)
def test_a_name_is_registered_once_and_known_to_its_class(name):
    assert BACKENDS[name].registered_name == name
