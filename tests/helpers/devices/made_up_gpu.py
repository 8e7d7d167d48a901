"""A made-up GPU: its constants are written here, its kernels take what they say, with noise.

The torch driver times it by its own CUDA half, over the stand-in of torch and one of NVML; only
what an op takes is made up.
"""

import sys
import zlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from cuda_stand_in import Cuda, install
from foretrace.hil.drivers.gpu import cuda_library
from foretrace.hil.drivers.pytorch import torch_device
from foretrace.hil.drivers.pytorch.torch_device import TorchDriver
from foretrace.models.compute.kernels import KernelFamily
from foretrace.models.compute.op_shape import op_shape
from foretrace.models.compute.roofline import Roofline
from foretrace.scenarios.studies.fitting.gpu_fit import ops_table
from foretrace.sim.setting_groups import construct_with_groups, unflatten_settings

HOST = 4_000  # ns to launch
NOISE = 0.02
SETTINGS = {
    "bandwidth": 3.352e12, "peaks.fp64": 60e12, "peaks.fp32": 55e12, "peaks.tf32": 430e12,
    "peaks.fp16": 900e12, "peaks.bf16": 989.4e12, "peaks.fp8": 1978.9e12, "efficiency": 0.74,
    "gemm.fp8.efficiency": 0.66, "memory_efficiency": 0.88, "launch": 2.4e-6,
    "gemm.fp8.launch": 5.1e-6, "exposed": 0.17, "gemm.join": 0.31e-6, "gemm.cold": 1.9e-6,
    "gemm.unaligned": 1.62, "gemm.fp8.tile_processors": 132, "chip.processors": 132,
    "chip.clock": 1.98e9, "chip.cache": 52428800.0,
}  # fmt: skip
STREAMING = {"launch": 2600.0, "near": 0.75, "memory": 0.4, "cache": 0.55}
IN_ROWS = {**STREAMING, "first": 650.0, "again": 1100.0}
FAMILIES = {
    "norm": {**IN_ROWS, "launch": 4300.0},
    "layer norm": {**IN_ROWS, "launch": 4600.0, "near": 0.95},
    "softmax": {**IN_ROWS, "launch": 3900.0, "near": 0.6},
    "activation": {**IN_ROWS, "launch": 1900.0},
    "rope": {**IN_ROWS, "launch": 2700.0, "near": 1.1},
    "elementwise": STREAMING,
    "reduction": {**STREAMING, "launch": 8900.0, "near": 1.2, "memory": 1.5},
    "gather": {**STREAMING, "launch": 4100.0, "near": 3.0, "memory": 0.9},
    "gather of few": {"launch": 3200.0, "first": 1150.0},
    "attention": {"launch": 9800.0, "first": 1.25, "again": 1.45, "near": 2.6},
    "decode attention": {**IN_ROWS, "launch": 8700.0, "first": 900.0, "again": 800.0},
    "experts": {"launch": 31000.0, "near": 0.9, "memory": 0.35, "arithmetic": 1.9, "cache": 0.4},
    "product": {},
}  # fmt: skip
COLD = 1450.0  # cycles of each family
OTHER = 40e-6  # s of what no family models
FACTS = {
    "gpu_khz": "1980000", "gpu_processors": "132", "gpu_memory_khz": "2619000",
    "gpu_bus_bits": "5120", "gpu_cache": "52428800", "gpu_copy_engines": "3", "gpu_major": "9",
    "gpu_minor": "0",
}  # fmt: skip


class Nvml:
    """What the management library says, as told: ``reasons`` of each reading in turn."""

    def __init__(self):
        self.reasons, self.slowed, self.readings = lambda reading: 0, 0, 0

    def read_reasons(self, handle):
        self.readings += 1
        return self.reasons(self.readings)

    def module(self):
        return SimpleNamespace(
            NVMLError=type("NVMLError", (Exception,), {}), NVML_CLOCK_SM=1, NVML_CLOCK_MEM=2,
            NVML_TEMPERATURE_GPU=0, nvmlInit=lambda: None,
            nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
            nvmlDeviceGetCurrentClocksThrottleReasons=self.read_reasons,
            nvmlDeviceGetViolationStatus=lambda h, p: SimpleNamespace(violationTime=self.slowed),
            nvmlDeviceGetClockInfo=lambda h, kind: {1: 1980, 2: 2619}[kind],
            nvmlDeviceGetMaxClockInfo=lambda h, kind: 1980,
            nvmlDeviceGetEnforcedPowerLimit=lambda h: 700_000,
            nvmlDeviceGetMemoryInfo=lambda h: SimpleNamespace(total=85899345920),
            nvmlDeviceGetMaxPcieLinkGeneration=lambda h: 5,
            nvmlDeviceGetMaxPcieLinkWidth=lambda h: 16,
            nvmlSystemGetDriverVersion=lambda: "570.0",
            nvmlDeviceGetPowerUsage=lambda h: 650_000,
            nvmlDeviceGetTemperature=lambda h, kind: 61,
            nvmlDeviceGetComputeRunningProcesses=lambda h: [],
        )  # fmt: skip


def truth():
    """The GPU as a backend; every answer is of a step, in which other kernels ran before."""
    made = construct_with_groups(Roofline, unflatten_settings(SETTINGS))
    made.families = {n: KernelFamily(**f, cold=COLD if f else 0.0) for n, f in FAMILIES.items()}
    return made


def true_seconds(texts, after=False):
    """(n,) s of ops without noise, alone or after others."""
    gpu = truth()
    if not after:
        gpu.cold = 0.0
        gpu.families = {n: replace(f, cold=0.0) for n, f in gpu.families.items()}
    return gpu.parts(ops_table(texts)).sum(axis=0)


class MadeUpGpu(TorchDriver):
    """The torch driver, over ops that take what the made-up GPU says."""

    name = "torch"
    slow = 1.0  # times as long as usual
    refuses = ()

    def _build(self, signature):
        if any(word in signature for word in self.refuses):
            from foretrace.sim.errors import DriverFault

            raise DriverFault("unsupported", f"{signature}: torch says no")
        alone, after = seconds_of(signature)
        random = np.random.default_rng(zlib.crc32(signature.encode()))
        ns = iter(lambda: random.normal(1, NOISE), None)

        def kernel():
            warm = getattr(self, "last", signature) == signature
            self.last = signature
            return 1e9 * (alone if warm else after) * next(ns) * type(self).slow

        return self.torch.cuda.launch(HOST, kernel)

    def _measured_peak(self, call):
        return 0.0


KNOWN = {}


def seconds_of(signature):
    """(alone, after others) s of an op."""
    if signature not in KNOWN:
        if op_shape(signature) is None:
            KNOWN[signature] = (OTHER, OTHER)
        else:
            KNOWN[signature] = tuple(float(true_seconds([signature], a)[0]) for a in (False, True))
    return KNOWN[signature]


def plug_in(monkeypatch):
    """The GPU where drivers look for one; returns its NVML."""
    torch, nvml = install(monkeypatch), Nvml()
    assert isinstance(torch.cuda, Cuda)
    torch.mm = lambda x, y: SimpleNamespace(sum=lambda: SimpleNamespace(item=lambda: 16.0))
    torch.ones = lambda *shape, device=None: None
    monkeypatch.setitem(sys.modules, "pynvml", nvml.module())
    monkeypatch.setattr(torch_device, "load_cuda_library", lambda: "made up")
    monkeypatch.setattr(torch_device, "device_attributes", lambda library, number: dict(FACTS))
    assert cuda_library.device_attributes(None, 0) == {}
    return nvml
