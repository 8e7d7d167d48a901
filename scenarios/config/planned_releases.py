"""Setting values that are not supported yet, with the release planned for each."""

from __future__ import annotations

ANY = "*"
"""Stands for any value of a setting."""
PLANNED_RELEASES = {
    ("cluster.fabric.fidelity", "packet"): "0.3",
    ("metric", "gpu.memory"): "0.3",
    ("placement.optimizer_state", "auto"): "0.3",
    ("placement.optimizer_state", "cxl"): "0.3",
    ("placement.optimizer_state", "host"): "0.3",
    ("workload.recorded_on.parallel.expert", ANY): "0.3",
}
"""Release in which a value will be supported, by (setting, value); remove a line once it is."""


def planned_release(path: str, value: object) -> str:
    """Release in which a setting's value will be supported; "" if none is planned.

    >>> planned_release("metric", "gpu.memory"), planned_release("metric", "gpu.memori")
    ('0.3', '')
    """
    return PLANNED_RELEASES.get((path, str(value)), "") or PLANNED_RELEASES.get((path, ANY), "")
