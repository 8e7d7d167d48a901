"""The CUDA half of the torch driver against a stand-in of one GPU: what its way of timing sees."""

from types import SimpleNamespace

import numpy as np
import pytest
from cuda_stand_in import install
from foretrace.hil.drivers.pytorch.torch_device import TorchDriver
from foretrace.hil.drivers.pytorch.torch_ops import BUILDERS
from foretrace.hil.sample import COLD, Request
from foretrace.sim.errors import DriverFault

OP = "compute:aten::mm bf16[8x8] bf16[8x8]"
HOST, KERNEL = 10_000, 2_000  # ns: a launch takes longer than what it launches


@pytest.fixture
def torch(monkeypatch):
    return install(monkeypatch)


@pytest.fixture
def driver(torch):
    made = TorchDriver()
    made.open({"device": "cuda:0"})
    yield made
    made.close()


def taken(driver, call, n=20, context="warm"):
    driver.calls[OP] = call
    (sample,) = driver.timing([Request(OP, n, context)])
    return sample


def test_a_kernel_shorter_than_its_launch_is_timed_and_not_the_launch(driver, torch):
    sample = taken(driver, torch.cuda.launch(HOST, KERNEL))
    assert sample.ns == pytest.approx(np.full(20, KERNEL))
    assert sample.facts.get("ahead", 1) == 1


def test_a_cold_kernel_is_timed_alone_too(driver, torch):
    driver._flush_caches = torch.cuda.launch(HOST, 100 * KERNEL)
    assert taken(driver, torch.cuda.launch(HOST, KERNEL), context=COLD).ns == pytest.approx(
        np.full(20, KERNEL)
    )


def test_a_kernel_longer_than_its_launch_is_what_it_was(driver, torch):
    sample = taken(driver, torch.cuda.launch(HOST, 50 * HOST), n=3)
    assert sample.ns == pytest.approx(np.full(3, 50 * HOST))


def test_the_device_is_held_once_it_is_known_for_how_long(driver, torch):
    taken(driver, torch.cuda.launch(HOST, KERNEL), n=200)
    tried = list(torch.cuda.slept)
    taken(driver, torch.cuda.launch(HOST, KERNEL), n=200)
    assert tried == sorted(tried)
    assert torch.cuda.slept == [*tried, tried[-1]]


def test_an_op_that_waits_for_the_device_says_that_the_host_was_not_ahead(driver, torch):
    sample = taken(driver, torch.cuda.launch(HOST, KERNEL, waits=True))
    assert sample.facts["ahead"] == 0
    before = len(torch.cuda.slept)
    assert taken(driver, torch.cuda.launch(HOST, KERNEL, waits=True)).facts["ahead"] == 0
    assert len(torch.cuda.slept) == before  # not tried again


def test_a_copy_between_host_and_device_does_not_wait_for_itself(driver, torch):
    for name in ("copy:h2d uint8[64]", "copy:d2h uint8[64]"):
        call = driver._build(name)
        x, y = (c.cell_contents for c in call.__closure__ if hasattr(c.cell_contents, "asked"))
        copied = x.asked or y.asked
        assert all(non_blocking for _, non_blocking in copied), name
        assert x.pinned or y.pinned


def test_what_the_host_copies_is_not_timed_by_a_gpus_events(driver):
    with pytest.raises(DriverFault, match=r"copy:h2h uint8.64.: the host does it.*device: cpu"):
        driver.timing([Request("copy:h2h uint8[64]")])


def test_fp32_is_fp32_and_tf32_is_asked_for_by_name(driver, torch):
    assert (torch.precision, torch.backends.cudnn.allow_tf32) == ("highest", False)
    seen = []
    torch.mm = lambda x, y: seen.append((torch.precision, torch.backends.cudnn.allow_tf32))
    driver.timing([Request("compute:aten::mm tf32[8x8] tf32[8x8]", 1)])
    assert set(seen) == {("high", True)}
    assert (torch.precision, torch.backends.cudnn.allow_tf32) == ("highest", False)


def test_gradients_of_attention_are_made_from_what_the_forward_pass_tells(driver, torch):
    given = []
    forward = ("out", "sums", "cu_q", "cu_k", "max_q", "max_k", "seed", "offset", "debug")
    torch.ops = SimpleNamespace(aten=SimpleNamespace(
        _scaled_dot_product_flash_attention=lambda *_: forward,
        _scaled_dot_product_flash_attention_backward=lambda *told: given.append(told[4:]),
    ))  # fmt: skip
    q = "bf16[1x2x32x64]"
    driver._build(f"compute:aten::_scaled_dot_product_flash_attention_backward {q} {q} {q} {q}")()
    assert given[-1] == (*forward[:6], 0.0, True, *forward[6:8])  # as native_functions.yaml says


def test_the_peak_of_an_op_is_what_it_allocates_beyond_its_operands(torch):
    driver = TorchDriver()
    driver.open({"device": "cuda:0", "memory": True})

    def call():
        torch.cuda.peak = max(torch.cuda.peak, torch.cuda.allocated + 4096)

    torch.cuda.allocated = torch.cuda.peak = 1 << 20
    torch.cuda.peak += 1 << 30  # of an op before
    assert taken(driver, call).facts["memory_peak"] == 4096
    driver.close()


def test_ops_in_flight_have_a_stream_each_and_are_timed_from_their_common_start(torch):
    driver = TorchDriver()
    driver.open({"device": "cuda:0", "sharing": "concurrent"})
    times = {"copy:h2d uint8[64]": 5 * KERNEL, "copy:d2h uint8[64]": 2 * KERNEL}
    driver._build = lambda signature: torch.cuda.launch(HOST, times[signature])
    samples = driver.together([Request(s, 4) for s in times])
    driver.close()
    assert [s.ns.tolist() for s in samples] == [[5 * KERNEL] * 4, [2 * KERNEL] * 4]
    assert all(s.facts.get("ahead", 1) == 1 for s in samples)


def test_ops_in_flight_are_refused_unless_the_driver_was_opened_for_them(driver):
    with pytest.raises(DriverFault, match="times only one op at a time"):
        driver.together([Request(OP, 1)])
    for spec in ({"device": "cpu", "sharing": "concurrent"}, {"sharing": "exclusive"}):
        with pytest.raises(DriverFault, match="use solo, or concurrent on a GPU"):
            TorchDriver().open(spec)


class Shaped:
    """A tensor of which only the shape is known."""

    def __init__(self, shape):
        self.shape = shape

    def __add__(self, number):
        return self

    def to(self, dtype):
        return self


def attention_of(driver, torch, words):
    asked = []
    torch.nn = SimpleNamespace(functional=SimpleNamespace(
        scaled_dot_product_attention=lambda *qkv, **how: asked.append(how)
    ))  # fmt: skip
    torch.rand = lambda shape, dtype=None, device=None: Shaped(shape)
    driver._build(f"compute:aten::scaled_dot_product_attention {words}")()
    return asked[-1]


def test_attention_is_causal_unless_it_says_not_or_looks_back_over_a_cache(driver, torch):
    """A causal mask of one query over many keys would leave it the first of them alone."""
    q, one, k, few = (f"bf16[2x{h}x{n}x64]" for h, n in ((8, 32), (8, 1), (8, 512), (2, 512)))
    assert attention_of(driver, torch, f"{q} {q} {q}") == {"is_causal": True}
    assert attention_of(driver, torch, f"causal=1 {q} {q} {q}") == {"is_causal": True}
    assert attention_of(driver, torch, f"causal=0 {q} {q} {q}") == {"is_causal": False}
    assert attention_of(driver, torch, f"{one} {k} {k}") == {"is_causal": False}
    shared = {"is_causal": False, "enable_gqa": True}
    assert attention_of(driver, torch, f"{one} {few} {few}") == shared


def test_each_shape_is_compiled_from_code_of_its_own(driver, torch):
    """Torch takes what it compiled for eight shapes of one code uncompiled, without a word."""
    compiled = []

    def compile_(function, **how):
        compiled.append((function.__code__, how))
        return function

    torch.compile, torch.rand = compile_, lambda shape, dtype=None, device=None: Shaped(shape)
    torch.nn = SimpleNamespace(functional=SimpleNamespace(rms_norm=lambda x, shape, weight: x))
    for n in range(1, 12):
        driver._build(f"compute:inductor::rms_norm bf16[{n}x64] bf16[64]")()
    assert len({id(code) for code, _ in compiled}) == 11
    assert all(how == {"dynamic": False, "fullgraph": True} for _, how in compiled)


def test_a_gpu_is_locked_by_what_it_is_and_not_by_its_number(driver, torch):
    other = TorchDriver()
    torch.cuda.device_count = lambda: 2  # the same GPU by another number, as in another process
    with pytest.raises(DriverFault, match="busy: GPU-1: measured by process"):
        other.open({"device": "cuda:1"})
    other.close()


def test_the_provenance_names_libraries_and_what_an_empty_pair_of_events_takes(driver):
    told = driver.describe()
    assert told["device"] == "stand-in"
    assert (told["cuda"], told["cudnn"]) == ("0.0", "90000")
    assert float(told["event_pair_ns"]) == 0.0  # of the stand-in, whose device needs none


def test_a_short_warm_op_is_called_several_times_between_two_events(driver, torch):
    torch.cuda.pair = 1_500.0  # ns that each event takes of the device
    driver._flush_caches = torch.cuda.launch(HOST, 100 * KERNEL)
    alone = taken(driver, torch.cuda.launch(HOST, KERNEL), context=COLD)
    many = taken(driver, torch.cuda.launch(HOST, KERNEL), n=10)
    assert many.facts["inner"] == 29  # of 3.5 us: together 100 us
    assert alone.median == pytest.approx(KERNEL + torch.cuda.pair)
    assert many.median == pytest.approx(KERNEL + torch.cuda.pair / 29)


def test_a_long_op_is_called_once_between_two_events(driver, torch):
    assert "inner" not in taken(driver, torch.cuda.launch(HOST, 200_000), n=10).facts


def test_where_memory_is_full_the_other_ops_are_released_once(driver, torch, monkeypatch):
    tries = []

    def build(op):
        tries.append(op)
        if driver.calls:
            raise torch.OutOfMemoryError
        return torch.cuda.launch(HOST, KERNEL)

    monkeypatch.setitem(BUILDERS, "compute:aten::mm", build)
    other = "compute:aten::mm bf16[16x16] bf16[16x16]"
    driver.timing([Request(OP, 1)])
    driver.timing([Request(other, 1)])
    assert (len(tries), list(driver.calls), torch.cuda.emptied) == (3, [other], 1)
    monkeypatch.setitem(BUILDERS, "compute:aten::mm", lambda op: torch.empty_more())
    torch.empty_more = lambda: (_ for _ in ()).throw(torch.OutOfMemoryError("out of memory"))
    with pytest.raises(DriverFault, match=r"unsupported: .*torch says out of memory"):
        driver.timing([Request("compute:aten::mm bf16[4x4] bf16[4x4]", 1)])


@pytest.mark.parametrize(("values", "made"), [("near one", "rand"), ("normal", "randn")])
def test_values_of_operands_are_a_setting(torch, values, made):
    asked = []
    for name in ("rand", "randn"):
        setattr(torch, name, lambda shape, name=name, **how: asked.append(name) or Shaped(shape))
    torch.mm = lambda x, y: None
    driver = TorchDriver()
    driver.open({"device": "cuda:0", "values": values})
    driver.timing([Request(OP, 1)])
    driver.close()
    assert set(asked) == {made}
    with pytest.raises(DriverFault, match="values is 'odd'; use near one or normal"):
        TorchDriver().open({"device": "cuda:0", "values": "odd"})


class Scaled(Shaped):
    """A tensor whose scaling is counted."""

    dtype = "fp8"

    def __init__(self, shape, seen):
        super().__init__(shape)
        self.seen = seen

    def t(self):
        return self

    def contiguous(self):
        return self

    def __getattr__(self, name):
        self.seen.append(name)
        return lambda *told: self

    def to(self, dtype):
        return self

    def __truediv__(self, other):
        return self


@pytest.mark.parametrize(("told", "scales"), [("", True), ("quantized=1 ", False)])
def test_a_scaled_gemm_includes_the_scaling_unless_its_operand_is_quantized(
    driver, torch, told, scales
):
    seen, fast = [], []
    torch.rand = lambda shape, dtype=None, device=None: Scaled(shape, seen)
    torch.ones = lambda shape, device=None: 1.0
    torch.compile = lambda function, **how: function
    torch._scaled_mm = lambda x, y, use_fast_accum, **how: fast.append(use_fast_accum)
    for more in ("", "fast_accum=1 "):
        driver._build(f"compute:aten::_scaled_mm {told}{more}fp8[16x16] fp8[16x16]")()
    assert ("amax" in seen) == scales
    assert fast == [False, False, True, True]
