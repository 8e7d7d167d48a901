"""``jobs``: several workloads on one machine, each with a name; ``workload`` is short for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, create_model

from ....sim.units import Duration
from ..choice import Choice
from ..schema import REQUIRED, Many, Section, register
from ..settings import workload_file_settings
from .head import Name
from .ops import OpRuleSection
from .placement import PlacementSection
from .processes import process_list_type
from .workload import WorkloadSection, workload_type

Pool = str | Annotated[int, Field(ge=1)] | Many[str]


class JobSection(Section):
    """A workload on a part of the machine."""

    workload: WorkloadSection
    on: Mapping[str, Pool]
    placement: PlacementSection
    processes: tuple[Choice, ...]
    ops: tuple[OpRuleSection, ...]
    arrives: float


def single_job(
    workload: WorkloadSection, placement: PlacementSection, steering: Any, ops: Any
) -> JobSection:
    """The job that the keys of one at the top are short for."""
    return JobSection.model_construct(
        workload=workload, on={}, placement=placement, processes=steering, ops=ops, arrives=0.0
    )


def _job_form() -> Any:
    """A job as a file writes it, of the workloads and processes that are known by now."""
    fields: dict[str, Any] = {
        "workload": (
            workload_type(),
            Field(REQUIRED, description="The workload that the job runs."),
        ),
        "on": (
            dict[str, Pool],
            Field(
                {},
                description="Components by pool: a name, a glob, a list of these, or a count, for "
                "which the job waits in arrival order. By default all components of the pool's "
                "kind.",
            ),
        ),
        "placement": (
            PlacementSection,
            Field(
                PlacementSection(),
                description="Component of each rank, and memory of the optimizer state.",
            ),
        ),
        "processes": (
            process_list_type(),
            Field((), description="Processes (policies) that act while the job runs."),
        ),
        "ops": (
            Many[OpRuleSection],
            Field((), description="Rules that change ops of the job."),
        ),
        "arrives": (
            Annotated[Duration, Field(ge=0)],
            Field(
                0.0,
                description="Time at which the job arrives and starts, or waits for components.",
            ),
        ),
    }
    told = JobSection.__doc__
    return create_model("job", __base__=JobSection, __doc__=told, **fields)


def _jobs_form() -> Any:
    named: Any = dict
    return named[Name, _job_form()]


def _file_patterns() -> tuple[str, ...]:
    return (*(f"*.workload.{name}" for name in workload_file_settings()), "*.processes.*.file")


register(
    "jobs",
    _jobs_form,
    {},
    help="Several jobs by name, in place of `workload`.",
    files=_file_patterns,
)
