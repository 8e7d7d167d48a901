"""What NVIDIA's management library says of a GPU: clock, power, heat, what slows it, who is on it.

What a GPU does not tell is left out.  Not verified on a GPU; tested against a stand-in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...sim.errors import DriverFault

# nvmlClocksEventReasons (nvml.h): slowed by hardware, by heat, by a power brake; not: idle, the
# application's own clocks, or the power cap, under which every large GPU works
SLOWED = 0x8 | 0x20 | 0x40 | 0x80


class Gpu:
    """One GPU, seen from outside; says nothing where the library is not there.

    Parameters
    ----------
    uuid : str
        As the library names it; "" for none.
    """

    def __init__(self, uuid: str = ""):
        found = _opened(uuid) if uuid else (None, None)
        self.library: Any = found[0]
        self.handle: Any = found[1]

    def facts(self) -> dict[str, Any]:
        """Of this moment; ``throttled`` is 1 where it is slowed by heat or hardware.

        >>> Gpu().facts()
        {}
        """
        if self.library is None:
            return {}
        n, gpu = self.library, self.handle
        found = self._answered({
            "gpu_mhz": lambda: n.nvmlDeviceGetClockInfo(gpu, n.NVML_CLOCK_SM),
            "gpu_memory_mhz": lambda: n.nvmlDeviceGetClockInfo(gpu, n.NVML_CLOCK_MEM),
            "gpu_watts": lambda: n.nvmlDeviceGetPowerUsage(gpu) / 1000,
            "gpu_celsius": lambda: n.nvmlDeviceGetTemperature(gpu, n.NVML_TEMPERATURE_GPU),
            "gpu_reasons": lambda: n.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
        })  # fmt: skip
        if "gpu_reasons" in found:
            found["throttled"] = int(bool(found["gpu_reasons"] & SLOWED))
        return found

    def to_dict(self) -> dict[str, str]:
        """What does not change while we measure: driver, memory, limits of clock and power.

        >>> Gpu().to_dict()
        {}
        """
        if self.library is None:
            return {}
        n, gpu = self.library, self.handle
        found = self._answered({
            "gpu_driver": lambda: _text(n.nvmlSystemGetDriverVersion()),
            "gpu_memory": lambda: n.nvmlDeviceGetMemoryInfo(gpu).total,
            "gpu_most_mhz": lambda: n.nvmlDeviceGetMaxClockInfo(gpu, n.NVML_CLOCK_SM),
            "gpu_most_watts": lambda: n.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000,
            "gpu_pcie": lambda: (f"{n.nvmlDeviceGetMaxPcieLinkGeneration(gpu)}"
                                 f"-x{n.nvmlDeviceGetMaxPcieLinkWidth(gpu)}"),
        })  # fmt: skip
        return {name: str(value) for name, value in found.items()}

    def _answered(self, asked: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
        """Answers by name, without those that this GPU does not give (virtual ones give few)."""
        found = {}
        for name, ask in asked.items():
            try:
                found[name] = ask()
            except self.library.NVMLError:
                continue
        return found

    def refuse_company(self) -> None:
        """Refuse a GPU on which others compute; to be asked once we do ourselves.

        In a container the library tells numbers of processes that mean nothing there, ours too.

        Raises
        ------
        DriverFault
            ``busy``, with the processes.
        """
        if self.library is None:
            return
        running = self.library.nvmlDeviceGetComputeRunningProcesses(self.handle)
        seen = [p.pid for p in running]
        if os.getpid() in seen:
            seen.remove(os.getpid())
        elif strange := [pid for pid in seen if not Path(f"/proc/{pid}").exists()]:
            seen.remove(strange[0])  # one of them is us
        if others := sorted(seen):
            raise DriverFault("busy", f"the GPU is used by processes {others}; wait for them")


def _text(value: str | bytes) -> str:
    """Older bindings tell bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _opened(uuid: str) -> tuple[Any, Any]:
    try:
        import pynvml
    except ImportError:
        return None, None
    try:
        pynvml.nvmlInit()
        return pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except pynvml.NVMLError:
        return None, None
