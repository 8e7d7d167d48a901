"""Provenance: sources of the numbers of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...config.hil_settings import hil_section
from ...config.scenario import BASE, Scenario
from .start_variation import check_jitter_interval

if TYPE_CHECKING:
    from ...config.sections.jobs import JobSection


REPLAY = "replay: recorded times on the recorded machine; nothing is predicted"


def provenance(scenario: Scenario) -> dict[str, Any]:
    """Sources of the numbers of a scenario, as plain data."""
    kinds: dict[str, int] = {}
    listed = []
    for path, origin in scenario.origins.items():
        if path.startswith(("what_if", "expect", "report", "run", "question", "name")):
            continue
        if (source := origin.source) is not None and source.kind:
            kinds[source.kind] = kinds.get(source.kind, 0) + 1
            told = {k: getattr(source, k) for k in ("kind", "where", "error", "note")}
            listed.append({"path": path, "value": origin.text, **told})
    return {
        "seed": scenario.run.seed,
        "replicas": scenario.run.replicas,
        "inputs": kinds,
        "workloads": sorted({job.workload.type for job in scenario.jobs.values()}),
        "values": listed,
        "calibration": calibration_of_run(scenario),
        "jitter": check_jitter_interval(scenario),
        "base": BASE,
    }


def calibration_of_run(scenario: Scenario) -> str:
    """State of calibration of a run as text; ``blind`` if no end-to-end measurement was used.

    For a run with devices in the loop, the text names the components that devices replaced.
    """
    hil = hil_section(scenario)
    if hil is not None and hil.mode == "coupled":
        real = ", ".join(f"{s.component} ({s.driver})" for s in hil.swap)
        return f"driven by devices or their recordings: {real}; the rest is predicted"
    return calibration_of_models(scenario)


def is_pure_replay(scenario: Scenario, sources: Mapping[str, float]) -> bool:
    """True if a run only replays recorded times on the recording machine.

    Parameters
    ----------
    sources : seconds of ops by the source of their time
    """
    gpu = scenario.cluster.gpu()
    return (
        all(text.startswith("recorded") for text, time in sources.items() if time > 0)
        and any(sources.values())
        and not scenario.cluster.override
        and all(
            _as_recorded(job, "" if gpu is None else gpu.model) for job in scenario.jobs.values()
        )
    )


def _as_recorded(job: JobSection, model: str) -> bool:
    """True if a job is an unchanged trace on a GPU of the given model."""
    on = getattr(job.workload, "recorded_on", None)
    device = on.device if on else None
    changed = getattr(job.workload, "scale_to", None) or job.ops or job.processes
    return hasattr(job.workload, "trace") and not changed and device in (None, model)


def calibration_of_models(scenario: Scenario) -> str:
    """Calibration of the models of a scenario as text, without regard to devices."""
    fitted = [
        o for p, o in scenario.origins.items()
        if p.startswith("cluster") and o.source and o.source.kind == "fitted"
    ]  # fmt: skip
    told = f", {len(fitted)} values of its parts were fitted on their own" if fitted else ""
    answering = (one for binding in scenario.backends.values() for one in binding.links_or_self)
    lines = sorted({str(one.settings.get("file")) for one in answering if one.use == "families"})
    if lines:
        return f"families of ops, fitted on recordings ({', '.join(lines)}){told}"
    return f"blind{told}"
