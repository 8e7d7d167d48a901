"""Driver ``torch``: PyTorch ops timed on a CPU or GPU.

The clock is the process's CPU clock, or on a GPU pairs of CUDA events.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import DriverFault
from ....sim.facts.signature import parse_signature
from ...driver import (
    Driver,
    Missing,
    Ready,
    Spec,
    checked,
    driver,
    parse_within_cap,
    signature_head,
)
from ...measuring import conditions
from ...measuring.device_lock import lock_device
from ...sample import WARM, Request, Sample
from ..gpu.cuda_library import device_attributes, load_cuda_library
from ..gpu.nvml import Gpu
from ..linux.timer import Call, context_restorer, time_call
from .torch_events import EventTimer
from .torch_ops import BUILDERS
from .torch_tensors import TorchOp

CURE = "pip install torch, or name a Python that has it in agents.yaml"
FLUSH = 256 << 20  # bytes written to empty the caches
GRAPH = "compute:graph"
SETTINGS: dict[str, Any] = {
    "device": "cpu",
    "core": -1,
    "cap": 32 << 30,
    "strides": {},
    "graphs": {},
    "memory": False,
    "sharing": "solo",
    "values": "near one",
}
VALUES = ("near one", "normal")


@driver("torch")
class TorchDriver(Driver):
    """Driver that times torch ops on one device, with one host thread.

    Settings: ``device`` (``cpu`` or ``cuda:0``), ``core`` (core to pin to; -1: the last one that
    this process may use), ``cap`` (maximum bytes of the operands of one op), ``strides`` (of
    convolutions, by signature, if the signature does not contain the stride), ``graphs`` (lists of
    signatures by name; op ``compute:graph NAME`` executes such a list in order), ``memory`` (True
    to measure the peak memory of each op) and ``sharing`` (``concurrent`` on a GPU: each op in
    flight has its own stream) and ``values`` (``near one``: floats of 0.5 to 1.5, with which ops in
    place can be repeated; ``normal``: of a standard normal distribution, with which GEMMs take more
    power).

    On a GPU, fp32 ops do not use TF32; ops with ``tf32`` operands do. Fact ``ahead`` is 0 if a
    sample includes host time (see ``torch_events.py``).

    Examples
    --------
    >>> TorchDriver().answers("compute:aten::mm fp32[4x4] fp32[4x4]")
    True
    >>> TorchDriver().answers("compute:os.system fp32[4x4]")
    False
    """

    ops = (*BUILDERS, GRAPH)
    clock = "cpu"
    sharing = "solo"

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.calls: dict[str, Call] = {}
        self.peaks: dict[str, float] = {}

    def probe(self) -> Ready | Missing:
        """Multiply two matrices on each device to find out if the driver works here."""
        try:
            import torch
        except ImportError as error:
            return Missing("missing", str(error).lower(), CURE)
        try:
            names = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
            for name in names:
                torch.mm(*(torch.ones(4, 4, device=name) for _ in range(2))).sum().item()
        except Exception as error:
            return Missing("broken", f"torch: {error}", "see torch's message about this device")
        return Ready(
            tuple(names), {"torch": torch.__version__, **conditions.constant_machine_facts()}
        )

    def open(self, spec: Spec) -> None:
        """Lock the device and choose its clock."""
        self.settings = checked(spec, SETTINGS)
        try:
            import torch
        except ImportError as error:
            raise DriverFault("missing", f"{error}; {CURE}") from error
        self.torch, self.name_of_device = torch, str(self.settings["device"])
        if self.name_of_device not in self._devices():
            raise DriverFault(
                "missing", f"no device {self.name_of_device!r}; there are {self._devices()}"
            )
        torch.set_num_threads(1)
        torch.manual_seed(0)
        torch.set_grad_enabled(False)
        self.device = torch.device(self.name_of_device)
        self.clock = "cpu" if self.device.type == "cpu" else "device"
        self._set_sharing()
        if self.settings["values"] not in VALUES:
            raise DriverFault(
                "unsupported", f"values is {self.settings['values']!r}; use {' or '.join(VALUES)}"
            )
        if self.clock == "device":
            torch.cuda.set_device(self.device)  # events are of the current device
        self._pin_to_core()
        self.gpu = Gpu(self._uuid())
        self.gpu.require_exclusive()
        if self.clock == "device":
            self._in_tf32(False)
            self.events = EventTimer(torch, self.device)
        self.scratch = torch.zeros(FLUSH, dtype=torch.uint8, device=self.device)

    def describe(self) -> dict[str, str]:
        """Provenance: device, torch, allocator, CUDA."""
        torch = self.torch
        facts = {"torch": torch.__version__, **conditions.constant_machine_facts()}
        facts["allocator"] = os.path.basename(os.environ.get("LD_PRELOAD", "")) or "libc"
        if self.clock == "cpu":
            facts["device"] = f"{facts.get('cpu', 'cpu')} core{self.core}"
        else:
            facts["device"] = torch.cuda.get_device_name(self.device)
            facts["cuda"] = str(torch.version.cuda)
            facts["cudnn"] = str(torch.backends.cudnn.version())
            facts["event_pair_ns"] = f"{self.events.pair:.0f}"
            facts |= device_attributes(load_cuda_library(), self.device.index or 0)
            facts |= self.gpu.static_facts()
        return facts

    def together(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples of all ops running concurrently on a GPU, each on its own stream."""
        if self.settings["sharing"] != "concurrent":
            return super().together(requests)
        if any(r.key[1] != WARM for r in requests):
            message = "concurrent ops are always warm; set ops: {context: warm}"
            raise DriverFault("unsupported", message)
        calls = [self._build(r.signature) for r in requests]
        with self.gpu.record_facts() as state:
            ns, facts = self.events.time_concurrent(calls, min(r.n for r in requests))
        facts |= state
        flags = ("throttled",) if facts.get("throttled") else ()
        return [
            Sample(r.signature, ns[:, i], self.clock, self.metric, WARM, flags=flags, facts=facts)
            for i, r in enumerate(requests)
        ]

    def close(self) -> None:
        """Release the core, the lock and the memory."""
        self.calls.clear()
        self.stack.close()

    def _set_sharing(self) -> None:
        told = self.settings["sharing"]
        if told not in ("solo", "concurrent") or (told != "solo" and self.clock == "cpu"):
            raise DriverFault(
                "unsupported", f"sharing is {told!r}; use solo, or concurrent on a GPU"
            )
        self.sharing = told

    def _devices(self) -> list[str]:
        return ["cpu", *(f"cuda:{i}" for i in range(self.torch.cuda.device_count()))]

    def _uuid(self) -> str:
        """UUID of the GPU in NVML; "" for a CPU."""
        if self.clock == "cpu":
            return ""
        return f"GPU-{self.torch.cuda.get_device_properties(self.device).uuid}"

    def _pin_to_core(self) -> None:
        allowed = os.sched_getaffinity(0)
        self.core = max(allowed) if self.settings["core"] < 0 else int(self.settings["core"])
        if self.core not in allowed:
            raise DriverFault(
                "missing",
                f"core {self.core} is not available to this process; use one of {allowed}",
            )
        self.stack.enter_context(lock_device(self._uuid() or f"core{self.core}"))
        os.sched_setaffinity(0, {self.core})
        self.stack.callback(os.sched_setaffinity, 0, allowed)

    def time_op(self, request: Request) -> Sample:
        """Sample of an op; its tensors are created once and kept until the driver is closed."""
        call = self._call(request.signature)
        restore = context_restorer(
            request, self._flush_caches, [self._call(s) for s in request.preceding]
        )
        with self.gpu.record_facts() as state:
            ns, facts = self._time_call(call, request, restore)
        facts |= state
        flags = ("throttled",) if facts.get("throttled") else ()
        if self.settings["memory"]:
            facts["memory_peak"] = self._peak_bytes(request.signature)
        return self.sample(request, ns, flags=flags, facts=facts)

    def _time_call(
        self, call: Call, request: Request, restore: Call | None
    ) -> tuple[NDArray[np.float64], dict[str, float]]:
        if self.clock == "cpu":
            return time_call(call, request, "cpu", restore)
        return self.events.time_repeats(call, request.n, restore, request.key)

    def _flush_caches(self) -> None:
        self.scratch.add_(1)

    def _call(self, signature: str) -> Call:
        if signature not in self.calls:
            self.calls[signature] = self._build(signature)
        return self.calls[signature]

    def _build(self, signature: str) -> Call:
        if signature_head(signature) == GRAPH:
            return self._graph(signature)
        parts = parse_within_cap(signature, self.settings["cap"])
        stride = int(parts.attributes.get("stride") or self.settings["strides"].get(signature, 0))
        op = TorchOp(self.torch, self.device, parts, stride, self.settings["values"] == "normal")
        try:
            return self._built_in_memory(op)
        except (RuntimeError, ValueError, IndexError) as error:
            raise DriverFault("unsupported", f"{signature}: torch says {error}") from error

    def _built_in_memory(self, op: TorchOp) -> Call:
        """Call of an op; if the device's memory is full, all other ops are released first."""
        with suppress(self.torch.OutOfMemoryError):
            return self._first_call(op)
        self._release_ops()
        return self._first_call(op)

    def _first_call(self, op: TorchOp) -> Call:
        call = BUILDERS[signature_head(str(op.parts))](op)
        call = self._with_tf32(call) if op.parts.dtype == "tf32" else call
        call()  # torch looks at shapes only now
        return call

    def _release_ops(self) -> None:
        """Release the tensors of all ops; each op is built again when it is requested."""
        self.calls.clear()
        if self.clock == "device":
            self.torch.cuda.empty_cache()

    def _with_tf32(self, call: Call) -> Call:
        """Wrap a call so that TF32 is enabled only while it runs."""

        def rounded() -> None:
            self._in_tf32(True)
            try:
                call()
            finally:
                self._in_tf32(False)

        return rounded

    def _in_tf32(self, allowed: bool) -> None:
        """Enable or disable TF32 for fp32 GEMMs and convolutions.

        Torch's defaults for the two differ.
        """
        self.torch.set_float32_matmul_precision("high" if allowed else "highest")
        self.torch.backends.cudnn.allow_tf32 = allowed

    def _graph(self, signature: str) -> Call:
        """Function that executes all ops of a named graph in order."""
        name = parse_signature(signature).name.partition(" ")[2]
        listed = self.settings["graphs"].get(name)
        if not listed:
            known = ", ".join(self.settings["graphs"]) or "none"
            raise DriverFault("unsupported", f"no graph named {name!r}; setting graphs has {known}")
        calls = [self._call(str(s)) for s in listed]

        def whole() -> None:
            for call in calls:
                call()

        return whole

    def _peak_bytes(self, signature: str) -> float:
        """Peak memory that the op allocates in B, measured once."""
        if signature not in self.peaks:
            self.peaks[signature] = self._measured_peak(self._call(signature))
        return self.peaks[signature]

    def _measured_peak(self, call: Call) -> float:
        if self.clock == "device":
            cuda = self.torch.cuda
            before = cuda.memory_allocated(self.device)
            cuda.reset_peak_memory_stats(self.device)
            call()
            return float(cuda.max_memory_allocated(self.device) - before)
        return _cpu_peak(self.torch, call)


def _cpu_peak(torch: Any, call: Call) -> float:
    """Peak memory that a call allocates on a CPU in B, from torch's profiler."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                profile_memory=True) as seen:  # fmt: skip
        call()
    held_now = peak = 0.0
    for event in _allocations(seen):
        held_now += event
        peak = max(peak, held_now)
    return peak


def _allocations(seen: Any) -> list[float]:
    """Bytes of all allocations (positive) and frees (negative) in torch's profile, in order."""
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    return [float(e.nbytes()) for e in sorted(events, key=lambda e: e.start_ns())]
