"""Cache of systems and backends in each process, for points that differ in their workload only.

The fabric then keeps what it computed for a system: routes, and the loads of collectives.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...config.scenario import Scenario
from ..variants.blind_variant import Machine, build_machine

KEPT = 4
_machines: dict[str, Machine] = {}


def cached_machine(scenario: Scenario, files: Mapping[str, str]) -> Machine:
    """System and backends of a scenario, from the cache if they do not depend on its workload.

    Backends of recordings and devices depend on it, so they are built for each point.

    Parameters
    ----------
    files : digest of the content of each file that the point names, by setting
    """
    jobs = [job.workload for job in scenario.jobs.values()]
    if scenario.section("hil") or any(hasattr(work, "recorded_on") for work in jobs):
        return build_machine(scenario)
    described = repr((scenario.cluster, scenario.backends, scenario.section("catalog"), files))
    if described not in _machines:
        made = build_machine(scenario)
        if any(backend.online for backend in made[1].values()):
            return made
        while len(_machines) >= KEPT:
            del _machines[next(iter(_machines))]
        _machines[described] = made
    return _machines[described]
