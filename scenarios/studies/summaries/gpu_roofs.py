"""Roofs of a variant's GPU, as its summary has them: peaks by element type, and its memory."""

from __future__ import annotations

from typing import Any

from ...config.scenario import Scenario


def gpu_roofs(scenario: Scenario) -> dict[str, Any]:
    """Model, peaks in flop/s and bandwidth in B/s of the first GPU; {} where any is unknown."""
    gpu = scenario.cluster.gpu()
    if gpu is None or "bandwidth" not in gpu.settings:
        return {}
    peaks = {t: float(p) for t, p in gpu.settings.get("peaks", {}).items() if p is not None}
    if not peaks:
        return {}
    return {"model": gpu.model, "peaks": peaks, "bandwidth": float(gpu.settings["bandwidth"])}
