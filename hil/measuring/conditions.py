"""Machine conditions while a batch is measured: load, CPU frequency, temperature, steal time.

They are read before and after the timed part. Values that the machine does not report are omitted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..sample import Sample
from ..sysfs import stripped_text

CPU = Path("/sys/devices/system/cpu")
JUMP = 0.01  # of the elapsed time, or
LEAST_JUMP = 1e-3  # s: what clocks may differ by before one of them is said to have jumped


@contextmanager
def record_conditions() -> Iterator[dict[str, Any]]:
    """Context manager that yields a dict and fills it with the conditions at the end of the block.

    >>> with record_conditions() as facts:
    ...     _ = sum(range(1000))
    >>> facts["elapsed"] > 0
    True
    """
    facts: dict[str, Any] = {}
    clocks, stolen, throttled = _read_clocks(), _steal_ticks(), _throttling_events()
    try:
        yield facts
    finally:
        after = _read_clocks()
        facts["elapsed"] = round(after["monotonic"] - clocks["monotonic"], 6)
        facts["jump"] = round(clock_drift(clocks, after), 6)
        facts["steal"] = _steal_ticks() - stolen
        facts["throttled"] = _throttling_events() - throttled
        facts |= _machine_state()


def clock_drift(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """Time in s by which several clocks drifted apart between two readings; 0 if tolerable.

    ``before`` and ``after`` are the readings by clock, in s. A large difference means that a clock
    was set or that the machine slept.

    >>> clock_drift({"monotonic": 0.0, "real": 5.0}, {"monotonic": 1.0, "real": 9.0})
    3.0
    >>> clock_drift({"monotonic": 0.0, "real": 5.0}, {"monotonic": 1.0, "real": 6.0001})
    0.0
    """
    passed = [after[name] - before[name] for name in before]
    apart = max(passed) - min(passed)
    return apart if apart > max(LEAST_JUMP, JUMP * max(passed)) else 0.0


def with_conditions(sample: Sample, facts: Mapping[str, Any]) -> Sample:
    """Copy of a sample with its batch's conditions as facts, and flags that rule out fitting it.

    >>> import numpy as np
    >>> sample = Sample("host:idle", np.ones(1), "wall")
    >>> with_conditions(sample, {"throttled": 2, "jump": 0.0}).flags
    ('throttled',)
    """
    flags = set(sample.flags)
    flags |= {"throttled"} if facts.get("throttled") else set()
    flags |= {"clock-jump"} if facts.get("jump") and sample.clock == "wall" else set()
    kept = {k: v for k, v in facts.items() if v}
    return replace(sample, flags=tuple(sorted(flags)), facts={**kept, **sample.facts})


def cores_used_by_others(seconds: float = 0.2) -> float:
    """Number of cores that other processes keep busy, measured while this one sleeps.

    >>> cores_used_by_others(0.01) >= 0
    True
    """
    before, begin = _busy_ticks(), time.monotonic()
    time.sleep(seconds)
    return (_busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begin)


def constant_machine_facts() -> dict[str, str]:
    """Facts of the machine that do not change while measuring: CPU, kernel, NUMA nodes."""
    facts = {"kernel": os.uname().release, "cpu": _cpu_model(), "cores": str(os.cpu_count())}
    facts["governor"] = stripped_text(CPU / "cpu0/cpufreq/scaling_governor")
    nodes = sorted(p.name for p in Path("/sys/devices/system/node").glob("node[0-9]*"))
    facts["numa"] = " ".join(nodes)
    return {k: v for k, v in facts.items() if v}


def _cpu_model() -> str:
    for line in stripped_text(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return os.uname().machine


def _machine_state() -> dict[str, Any]:
    """Load, clock rate of a core (MHz) and temperature (Celsius) of this machine now."""
    core = min(os.sched_getaffinity(0))
    return {
        "load": round(os.getloadavg()[0], 2),
        "mhz": _read_number(CPU / f"cpu{core}/cpufreq/scaling_cur_freq", 1e-3),
        "celsius": _read_number(Path("/sys/class/thermal/thermal_zone0/temp"), 1e-3),
    }


def _read_clocks() -> dict[str, float]:
    """Readings of the monotonic, real-time and boot clocks, in s."""
    read: dict[str, Callable[[], float]] = {
        "monotonic": time.monotonic,
        "real": time.time,
        "boot": lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    }
    return {name: clock() for name, clock in read.items()}


def _steal_ticks() -> int:
    """Steal time of all cores together since boot, in clock ticks."""
    words = stripped_text(Path("/proc/stat")).partition("\n")[0].split()
    return int(words[8]) if len(words) > 8 else 0


def _busy_ticks() -> int:
    """User, nice and system time of all cores together since boot, in clock ticks."""
    words = stripped_text(Path("/proc/stat")).partition("\n")[0].split()
    return sum(int(words[i]) for i in (1, 2, 3) if i < len(words))


def _throttling_events() -> int:
    """Number of thermal throttling events of core 0 since boot; 0 if they are not reported."""
    return int(_read_number(CPU / "cpu0/thermal_throttle/core_throttle_count", 1.0))


def _read_number(path: Path, scale: float) -> float:
    text = stripped_text(path)
    return float(text) * scale if text else 0.0
