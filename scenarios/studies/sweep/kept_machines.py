"""Machines of points, built once in a process for all points that differ in their workload alone.

What the fabric has learnt of a machine stays with it: its routes, and the loads of collectives.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....sim.backend import Backend
from ....sim.system import System
from ...config.scenario import Scenario
from ..building.system import build_backends, build_system

KEPT = 4
_machines: dict[str, tuple[System, Mapping[str, Backend]]] = {}


def machine_of(scenario: Scenario) -> tuple[System, Mapping[str, Backend]] | None:
    """Components of a scenario and their backends; None where backends are of its workload.

    Those of recordings and of devices are: they are built for each point.
    """
    jobs = [job.workload for job in scenario.jobs.values()]
    if scenario.section("hil") or any(hasattr(work, "recorded_on") for work in jobs):
        return None
    described = repr((scenario.cluster, scenario.backends, scenario.section("catalog")))
    if described not in _machines:
        while len(_machines) >= KEPT:
            del _machines[next(iter(_machines))]
        system = build_system(scenario)
        backends = build_backends(scenario, system)
        if any(backend.online for backend in backends.values()):
            return None
        _machines[described] = system, backends
    return _machines[described]
