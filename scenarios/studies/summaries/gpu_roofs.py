"""Roofline of a variant's GPU for its summary: peaks by element type, and memory bandwidth."""

from __future__ import annotations

from typing import Any

from ...config.scenario import Scenario


def gpu_roofs(scenario: Scenario) -> dict[str, Any]:
    """Model, peaks in flop/s and bandwidth in B/s of the first GPU; {} if one is unknown."""
    gpu = scenario.cluster.gpu()
    if gpu is None or "bandwidth" not in gpu.settings:
        return {}
    peaks = {t: float(p) for t, p in gpu.settings.get("peaks", {}).items() if p is not None}
    if not peaks:
        return {}
    return {"model": gpu.model, "peaks": peaks, "bandwidth": float(gpu.settings["bandwidth"])}
