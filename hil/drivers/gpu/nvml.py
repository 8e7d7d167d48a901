"""State of an NVIDIA GPU from NVML: clocks, power, temperature, throttling, processes.

Values that a GPU does not report are omitted. Tried on an H100; tested with a stand-in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ....sim.errors import DriverFault

# nvmlClocksEventReasons (nvml.h): slowed by hardware, by heat, by a power brake; not: idle, the
# application's own clocks, or the power cap, under which every large GPU works
SLOWED = 0x8 | 0x20 | 0x40 | 0x80
THERMAL = 1  # NVML_PERF_POLICY_THERMAL (nvml.h, nvmlPerfPolicyType_t)


class Gpu:
    """GPU queried through NVML; every result is empty if NVML is not installed.

    Parameters
    ----------
    uuid : str
        UUID of the GPU in NVML; "" for no GPU.
    """

    def __init__(self, uuid: str = ""):
        values = _open_handle(uuid) if uuid else (None, None)
        self.library: Any = values[0]
        self.handle: Any = values[1]

    def facts(self) -> dict[str, Any]:
        """Current clocks, power and temperature.

        ``throttled`` is 1 if heat or hardware slows the GPU.

        >>> Gpu().facts()
        {}
        """
        if self.library is None:
            return {}
        values = self._state()
        if "gpu_reasons" in values:
            values["throttled"] = int(bool(values["gpu_reasons"] & SLOWED))
        return values

    @contextmanager
    def record_facts(self) -> Iterator[dict[str, Any]]:
        """Context manager that yields a dict, filled with the GPU's facts at the block's end.

        ``throttled`` is set if the GPU was throttled before, during or after the block. It combines
        the throttle reasons at both ends and the throttled time that the GPU's driver counted in
        between (``gpu_slowed_ns``). ``gpu_mhz_before`` is present if the clock changed.

        >>> with Gpu().record_facts() as facts:
        ...     pass
        >>> facts
        {}
        """
        facts: dict[str, Any] = {}
        if self.library is None:
            yield facts
            return
        before, slowed = self._state(), self._slowed_ns()
        yield facts
        facts |= self._state()
        if "gpu_reasons" in facts:
            facts["gpu_reasons"] |= before.get("gpu_reasons", 0)
        lost = self._slowed_ns() - slowed
        if lost > 0:
            facts["gpu_slowed_ns"] = lost
        if "gpu_reasons" in facts or lost > 0:
            facts["throttled"] = int(lost > 0 or bool(facts.get("gpu_reasons", 0) & SLOWED))
        if before.get("gpu_mhz", facts.get("gpu_mhz")) != facts.get("gpu_mhz"):
            facts["gpu_mhz_before"] = before["gpu_mhz"]

    def _slowed_ns(self) -> int:
        """Total time so far that heat throttled the GPU, in ns; 0 if the GPU does not report it."""
        n, gpu = self.library, self.handle
        told = self._query(
            {"ns": lambda: n.nvmlDeviceGetViolationStatus(gpu, THERMAL).violationTime}
        )
        return int(told.get("ns", 0))

    def _state(self) -> dict[str, Any]:
        n, gpu = self.library, self.handle
        return self._query({
            "gpu_mhz": lambda: n.nvmlDeviceGetClockInfo(gpu, n.NVML_CLOCK_SM),
            "gpu_memory_mhz": lambda: n.nvmlDeviceGetClockInfo(gpu, n.NVML_CLOCK_MEM),
            "gpu_watts": lambda: n.nvmlDeviceGetPowerUsage(gpu) / 1000,
            "gpu_celsius": lambda: n.nvmlDeviceGetTemperature(gpu, n.NVML_TEMPERATURE_GPU),
            "gpu_reasons": lambda: n.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
        })  # fmt: skip

    def static_facts(self) -> dict[str, str]:
        """Constant facts: driver version, memory size, PCIe link, limits of clock and power.

        >>> Gpu().static_facts()
        {}
        """
        if self.library is None:
            return {}
        n, gpu = self.library, self.handle
        values = self._query({
            "gpu_driver": lambda: _decode_text(n.nvmlSystemGetDriverVersion()),
            "gpu_memory": lambda: n.nvmlDeviceGetMemoryInfo(gpu).total,
            "gpu_most_mhz": lambda: n.nvmlDeviceGetMaxClockInfo(gpu, n.NVML_CLOCK_SM),
            "gpu_most_watts": lambda: n.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000,
            "gpu_pcie": lambda: (f"{n.nvmlDeviceGetMaxPcieLinkGeneration(gpu)}"
                                 f"-x{n.nvmlDeviceGetMaxPcieLinkWidth(gpu)}"),
        })  # fmt: skip
        return {name: str(value) for name, value in values.items()}

    def _query(self, queries: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
        """Results of NVML queries by name; queries that this GPU does not support are omitted."""
        values = {}
        for name, ask in queries.items():
            try:
                values[name] = ask()
            except self.library.NVMLError:
                continue
        return values

    def require_exclusive(self) -> None:
        """Refuse a GPU that other processes use.

        Call it after this process has started using the GPU.

        In a container NVML reports process ids of the host, so one unknown id is taken to be this
        process.

        Raises
        ------
        DriverFault
            ``busy``: other processes use the GPU; the message lists them.
        """
        if self.library is None:
            return
        running = self.library.nvmlDeviceGetComputeRunningProcesses(self.handle)
        pids = [p.pid for p in running]
        if os.getpid() in pids:
            pids.remove(os.getpid())
        elif strange := [pid for pid in pids if not Path(f"/proc/{pid}").exists()]:
            pids.remove(strange[0])  # one of them is us
        if others := sorted(pids):
            raise DriverFault("busy", f"the GPU is used by processes {others}; wait for them")


def _decode_text(value: str | bytes) -> str:
    """Text as str; older NVML bindings return bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _open_handle(uuid: str) -> tuple[Any, Any]:
    try:
        import pynvml
    except ImportError:
        return None, None
    try:
        pynvml.nvmlInit()
        return pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except pynvml.NVMLError:
        return None, None
