"""What NVIDIA's management library says of a GPU: clock, power, heat, what slows it, who is on it.

Not verified on a GPU; tested against a stand-in of the library.
"""

from __future__ import annotations

import os
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
        nvml, handle = self.library, self.handle
        reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        return {
            "gpu_mhz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "gpu_watts": nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "gpu_celsius": nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "gpu_reasons": reasons,
            "throttled": int(bool(reasons & SLOWED)),
        }

    def refuse_company(self) -> None:
        """Refuse a GPU on which others compute.

        Raises
        ------
        DriverFault
            ``busy``, with the processes.
        """
        if self.library is None:
            return
        running = self.library.nvmlDeviceGetComputeRunningProcesses(self.handle)
        others = sorted(p.pid for p in running if p.pid != os.getpid())
        if others:
            raise DriverFault("busy", f"the GPU is used by processes {others}; wait for them")


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
