"""The roofline: its corner, its roofs, and what it refuses."""

import numpy as np
import pytest
from foretrace.models.compute.gpu_groups import CacheRoof, Chip, Fp8Gemm, Gemm, Peaks
from foretrace.models.compute.kernels import KernelFamily
from foretrace.models.compute.roofline import Roofline
from foretrace.models.memory.copy import Copy
from foretrace.models.memory.memory import Memory
from foretrace.models.network.part.link import Link
from foretrace.models.network.topology.topology import GpuSpec, NodeSpec, cluster
from foretrace.sim.errors import BackendError
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.run.simulation import Simulation

PEAK, BANDWIDTH = 1e14, 1e12


def ops(flop, moved, dtype="bf16", kind=Kind.COMPUTE):
    return Ops.of(
        kind=kind, flop=flop, bytes=moved, signature=0, signatures=(f"compute:mm {dtype}[8x8]",)
    )


def test_the_ridge_point_is_peak_over_bandwidth():
    """Williams, Waterman, Patterson 2009: attainable = min(peak, intensity x bandwidth)."""
    intensity = np.logspace(-1, 5, 25)
    moved = 1e9
    gpu = Roofline(peaks=Peaks(bf16=PEAK), bandwidth=BANDWIDTH)
    seconds = gpu.timing(ops(intensity * moved, moved)).fixed
    attained = intensity * moved / seconds
    assert attained == pytest.approx(np.minimum(PEAK, intensity * BANDWIDTH), rel=1e-12)
    at_corner = gpu.timing(ops([PEAK / BANDWIDTH * moved], moved)).fixed[0]
    assert at_corner == pytest.approx(moved / BANDWIDTH)


def test_efficiencies_lower_both_roofs_and_launch_is_a_floor():
    gpu = Roofline(
        peaks=Peaks(bf16=PEAK),
        bandwidth=BANDWIDTH,
        efficiency=0.5,
        memory_efficiency=0.25,
        launch=1e-6,
    )
    found = gpu.timing(ops([0.0, 1e8, 0.0], [0.0, 0.0, 1e6])).fixed
    assert found.tolist() == pytest.approx([1e-6, 3e-6, 5e-6])


@pytest.mark.parametrize(
    ("dtype", "tf32", "peak"),
    [("bf16", False, 4e12), ("fp32", False, 1e12), ("fp32", True, 2e12), ("fp8_e5m2", False, 8e12)],
)
def test_the_peak_is_that_of_the_element_type(dtype, tf32, peak):
    gpu = Roofline(
        bandwidth=1e15, peaks=Peaks(fp32=1e12, tf32=2e12, bf16=4e12, fp8=8e12), gemm=Gemm(tf32=tf32)
    )
    assert gpu.timing(ops([peak], 0.0, dtype)).fixed[0] == pytest.approx(1.0)


def test_fp8_pays_for_the_scaling_of_its_operands():
    gpu = Roofline(
        bandwidth=1e15,
        peaks=Peaks(bf16=1e12, fp8=1e12),
        launch=1e-6,
        gemm=Gemm(fp8=Fp8Gemm(launch=3e-6, efficiency=0.5)),
    )
    assert gpu.timing(ops([1e6], 0.0, "bf16")).fixed[0] == pytest.approx(2e-6)
    assert gpu.timing(ops([1e6], 0.0, "fp8")).fixed[0] == pytest.approx(5e-6)


def test_what_fits_the_cache_moves_at_its_rate():
    gpu = Roofline(bandwidth=1e9, cache=CacheRoof(size=1e6, bandwidth=1e10))
    assert gpu.timing(ops([0.0] * 2, [1e6, 2e6])).fixed.tolist() == pytest.approx([1e-4, 2e-3])
    with pytest.raises(BackendError, match="give both or neither"):
        Roofline(bandwidth=1e9, cache=CacheRoof(size=1e6))


def test_an_op_without_arithmetic_needs_no_peak():
    gpu = Roofline(bandwidth=BANDWIDTH)
    assert gpu.timing(ops([0.0], 1e6, "int64")).fixed[0] == pytest.approx(1e-6)
    assert gpu.timing(ops([np.nan], 1e6, kind=Kind.COPY)).fixed[0] == pytest.approx(1e-6)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (ops([1.0], 1.0, "fp64"), r"op 0 \(compute:mm fp64\[8x8\]\): no peak for fp64, only for"),
        (Ops.of(flop=1.0, bytes=1.0), "no peak for an unknown element type"),
        (ops([np.nan], 1.0), "flop are unknown"),
        (ops([1.0], [np.nan]), "bytes are unknown"),
    ],
)
def test_what_it_cannot_know_it_refuses(asked, message):
    with pytest.raises(BackendError, match=message):
        Roofline(bandwidth=BANDWIDTH, peaks=Peaks(bf16=PEAK)).timing(asked)


def node(rate=1e12):
    memory = Memory(bandwidth=BANDWIDTH, latency=0.0)
    bus = Link(bandwidth=rate, latency=0.0)
    return cluster(1, NodeSpec(gpus=1, gpu=GpuSpec(hbm=memory), host_link=bus))


def together(shared):
    """A kernel that moves 1 GB and a copy of 1 GB into the same memory, at once."""
    build = Builder("both")
    build.op(Kind.COMPUTE, flop=0.0, bytes=1e9, signature="compute:add bf16[8]")
    build.op(Kind.COPY, stream=7, bytes=1e9, signature="copy:h2d")
    gpu = Roofline(bandwidth=BANDWIDTH, peaks=Peaks(bf16=PEAK), shared=shared)
    backends = {"node0.gpu0": gpu, "node0.gpu0.dma": Copy()}
    return Simulation(node(), backends, engine="reference").run(build.graph()).makespan


def test_kernels_and_copies_share_memory_only_if_shared_is_set():
    assert together(shared=False) == pytest.approx(1e-3)
    assert together(shared=True) == pytest.approx(2e-3)


def test_without_contention_a_shared_kernel_takes_the_same_time():
    asked = ops([1e10, 1e11, 0.0, 5e10], [1e9, 1e6, 1e9, 0.0])
    spans = []
    for shared in (False, True):
        build = Builder("row")
        last = []
        for row in range(len(asked)):
            last = [
                build.op(
                    Kind.COMPUTE, flop=asked.flop[row], bytes=asked.bytes[row], after=last,
                    signature=asked.signature_text(row),
                )
            ]  # fmt: skip
        gpu = Roofline(bandwidth=BANDWIDTH, peaks=Peaks(bf16=PEAK), launch=1e-6, shared=shared)
        run = Simulation(node(), {"node0.gpu0": gpu}, engine="reference").run(build.graph())
        spans.append(run.makespan)
    assert spans[0] == pytest.approx(spans[1], abs=1e-11)


def test_sharing_without_a_memory_to_share_is_refused():
    with pytest.raises(BackendError, match="needs GPUs with an hbm"):
        Roofline(bandwidth=BANDWIDTH, shared=True).timing(ops([0.0], 1.0))


def product(dtype, m, n, k):
    return Ops.of(
        flop=2.0 * m * n * k, bytes=0.0, signature=0,
        signatures=(f"compute:aten::mm {dtype}[{m}x{k}] {dtype}[{k}x{n}]",),
    )  # fmt: skip


def test_the_shorter_of_compute_and_memory_adds_its_exposed_fraction():
    gpu = Roofline(peaks=Peaks(bf16=1e12), bandwidth=1e12, exposed=0.5)
    found = gpu.timing(ops([1e6, 4e6], [4e6, 1e6])).fixed
    assert found.tolist() == pytest.approx([4.5e-6, 4.5e-6])


def test_a_long_gemm_runs_at_the_power_limit_except_for_an_initial_burst():
    limit = {"efficiency": 0.8, "gemm": Gemm(sustained=0.5, burst=1e-3)}
    loop, step = (
        Roofline(peaks=Peaks(bf16=1e12), bandwidth=1e15, caches=caches, **limit)
        for caches in ("alone", "step")
    )
    short, long = (loop.timing(ops([flop], [1.0])).fixed[0] for flop in (4e8, 1e12))
    assert short == pytest.approx(4e8 / 0.8e12)
    assert long == pytest.approx(1e12 / 0.5e12 - 1e-3)
    in_step = step.timing(ops([4e8, 1e12], [1.0, 1.0])).fixed
    assert in_step.tolist() == pytest.approx([4e8 / 0.5e12, 1e12 / 0.5e12])


def test_the_power_limit_applies_to_half_precision_and_is_below_efficiency():
    gpu = Roofline(peaks=Peaks(fp8=1e12), bandwidth=1e15, efficiency=0.8, gemm=Gemm(sustained=0.5))
    assert gpu.timing(product("fp8", 512, 512, 512)).fixed[0] == pytest.approx(2 * 512**3 / 0.8e12)
    with pytest.raises(BackendError, match=r"sustained is 0\.9, above the efficiency of short"):
        Roofline(peaks=Peaks(bf16=1e12), bandwidth=1e12, efficiency=0.8, gemm=Gemm(sustained=0.9))


def test_an_eight_times_longer_sum_adds_three_joins():
    gpu = Roofline(peaks=Peaks(bf16=1e30), bandwidth=1e12, launch=1e-6, gemm=Gemm(join=1e-7))
    short, long = (gpu.timing(product("bf16", 8, 8, k)).fixed[0] for k in (128, 1024))
    assert short == pytest.approx(1.2e-6)
    assert long - short == pytest.approx(3e-7)


def test_products_of_fp8_fill_whole_tiles_in_whole_rounds():
    """129 rows and one column: two tiles of 128 x 128 in one round of four processors."""
    gpu = Roofline(peaks=Peaks(fp8=1e12), bandwidth=1e12, gemm=Gemm(fp8=Fp8Gemm(tile_processors=4)))
    found = gpu.timing(product("fp8", 129, 1, 100)).fixed[0]
    assert found == pytest.approx(4 * 2 * 128 * 128 * 100 / 1e12)


def test_quantization_reads_bf16_and_writes_fp8():
    gpu = Roofline(
        peaks=Peaks(fp8=1e30), bandwidth=1e9, launch=1e-6, gemm=Gemm(fp8=Fp8Gemm(launch=2e-6))
    )
    assert gpu.timing(product("fp8", 10, 1, 100)).fixed[0] == pytest.approx(2e-6 + 3e-6)


def test_a_level_scales_all_parts_of_its_family_only():
    gpu = Roofline(bandwidth=1e12, peaks=Peaks(fp32=1e12), launch=1e-6)
    texts = ("compute:aten::mm fp32[64x64] fp32[64x64]",)
    ops = Ops.of(flop=2.0 * 64**3, bytes=49152.0, signature=0, signatures=texts)
    (alone,) = gpu.timing(ops).fixed.tolist()
    gpu.families = {"product": KernelFamily(level=1.5), "norm": KernelFamily(level=9.0)}
    assert gpu.timing(ops).fixed.tolist() == pytest.approx([1.5 * alone])


def test_without_tf32_the_fp32_peak_is_used():
    texts = ("compute:aten::mm tf32[64x64] tf32[64x64]",)
    ops = Ops.of(flop=2e12, bytes=0.0, signature=0, signatures=texts)
    assert Roofline(bandwidth=1e12, peaks=Peaks(fp32=1e12)).timing(ops).fixed.tolist() == [2.0]


def test_a_family_takes_the_datasheets_peak_since_its_constants_hold_their_own_share():
    """Arithmetic of attention came out 22 % too slow: its peak was that which products reach."""
    text = "compute:aten::_scaled_dot_product_flash_attention " + " ".join(
        ["bf16[4x16x4096x64]"] * 3
    )
    ops = Ops.of(flop=float("nan"), bytes=float("nan"), signature=0, signatures=(text,))
    chip = Chip(processors=108, clock=1.41e9, cache=4e7)
    told = {"bandwidth": 2e12, "peaks": Peaks(bf16=312e12), "chip": chip}
    some = {**told, "kernels": "a100-sxm4-80g"}
    whole, half = (Roofline(**some, efficiency=share) for share in (1.0, 0.5))
    assert whole.parts(ops)[3] > 0
    assert whole.parts(ops).tolist() == half.parts(ops).tolist()


def h100(**more):
    """An H100 whose families of kernels are known."""
    return Roofline(
        bandwidth=3.35e12,
        peaks=Peaks(bf16=989.4e12),
        launch=2e-6,
        kernels="h100-sxm5-80g",
        chip=Chip(processors=132, clock=1.98e9, cache=50 * 2**20),
        **more,
    )


def declared(text):
    return Ops.of(flop=1e12, bytes=1e9, signature=0, signatures=(text,))


def test_an_op_of_given_work_has_the_error_interval_of_the_family_it_names():
    gpu = h100()
    texts = "compute:layers bf16[]", "compute:layers like=product bf16[]"
    plain, named = (gpu.timing(declared(text)) for text in texts)
    assert plain.fixed.tolist() == named.fixed.tolist()
    assert (plain.doubt[0].family, named.doubt[0].family) == ("roofline", "product")
    widths = [np.subtract(*np.log(t.doubt[0].interval()[::-1])) for t in (plain, named)]
    assert widths[1] < 0.6 * widths[0]


def test_an_op_like_an_unknown_family_is_refused_with_the_choices():
    with pytest.raises(BackendError, match=r"like=produkt is not a family .*; write one of act"):
        h100().timing(declared("compute:layers like=produkt bf16[]"))


def test_an_op_with_a_family_from_its_operands_keeps_it():
    text = "compute:vllm::rms_norm like=product bf16[64x4096] bf16[4096]"
    assert h100().timing(declared(text)).doubt[0].family == "norm"


def small(text, caches="step", **gemm):
    gpu = Roofline(
        peaks=Peaks(bf16=1e12, fp32=1e12),
        bandwidth=1e9,
        launch=1e-6,
        caches=caches,
        gemm=Gemm(**gemm),
    )
    return gpu.timing(Ops.of(flop=1e9, bytes=1e3, signature=0, signatures=(text,))).fixed[0]


def test_only_gemms_have_a_cold_start_after_other_kernels():
    product, other = "compute:aten::mm bf16[32x16] bf16[16x64]", "compute:mine bf16[32]"
    assert small(product, cold=3e-6) - small(product) == pytest.approx(3e-6)
    assert small(other, cold=3e-6) == small(other)


def test_in_a_loop_of_one_op_nothing_starts_cold():
    """Of short kernels a cold start is a large part: 38 % of few embeddings lay outside."""
    product, norm = "compute:aten::mm bf16[32x16] bf16[16x64]", "compute:vllm::rms_norm bf16[4x8]"
    assert small(product, cold=3e-6, caches="alone") == small(product)
    step, alone = (h100(caches=c).timing(declared(norm)).fixed[0] for c in ("step", "alone"))
    assert step - alone == pytest.approx(1600 / 1.98e9)  # cycles of its family
    with pytest.raises(BackendError, match="caches is 'warm'; take 'alone' or 'step'"):
        Roofline(bandwidth=1e9, caches="warm")


@pytest.mark.parametrize(
    ("text", "longer"),
    [
        ("compute:aten::mm bf16[30x16] bf16[16x64]", 1.0),
        ("compute:aten::mm bf16[32x16] bf16[16x60]", 1.5),
        ("compute:aten::mm bf16[32x15] bf16[15x64]", 1.5),
        ("compute:aten::mm fp32[32x15] fp32[15x64]", 1.0),  # no tensor cores
    ],
)
def test_products_on_tensor_cores_take_longer_where_rows_are_not_aligned(text, longer):
    work = small(text) - 1e-6
    assert small(text, unaligned=1.5) - 1e-6 == pytest.approx(longer * work)


@pytest.mark.parametrize(
    ("text", "longer"),
    [
        ("compute:aten::bmm bf16[2x32x64] bf16[2x64x61]", 3.0),
        ("compute:aten::bmm bf16[2x32x61] bf16[2x61x64]", 3.0),
        ("compute:aten::bmm bf16[2x31x64] bf16[2x64x62]", 1.5),  # rows of 124 B
        ("compute:aten::bmm tf32[2x32x64] tf32[2x64x61]", 1.5),  # rows of 244 B
        ("compute:aten::bmm fp32[2x32x64] fp32[2x64x61]", 1.0),
    ],
)
def test_half_precision_in_odd_rows_is_not_copied_past_registers_and_takes_longer_still(
    text, longer
):
    def work(**told):
        gpu = Roofline(
            peaks=Peaks(bf16=1e12, tf32=1e12, fp32=1e12), bandwidth=1e9, gemm=Gemm(**told)
        )
        return gpu.timing(Ops.of(flop=1e9, bytes=1e3, signature=0, signatures=(text,))).fixed[0]

    assert work(unaligned=1.5, odd=3.0) == pytest.approx(longer * work())
    assert work(unaligned=1.5) == pytest.approx(min(longer, 1.5) * work())
