"""``jobs``: several named workloads on one cluster; ``workload`` is the short form for one."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, create_model

from ....sim.units import Duration
from ..choice import Choice
from ..schema import Many, Section, register
from ..settings import workload_file_settings
from .head import Name
from .ops import OpRuleSection
from .placement import PlacementSection
from .processes import process_list_type
from .workload import WorkloadSection, workload_type

Pool = str | Annotated[int, Field(ge=1)] | Many[str]


class JobSection(Section):
    """One workload, and the components of the cluster that it uses."""

    workload: WorkloadSection
    """The workload that the job runs."""
    on: dict[str, Pool] = Field(default_factory=dict)
    """Components by pool: a name, a glob, a list of them, or a count; a job with a count waits in
    order until so many are free. By default all components of the pool's kind."""
    placement: PlacementSection = PlacementSection()
    """Where its state is kept, and the component of each rank."""
    processes: tuple[Choice, ...] = ()
    """Processes that steer the job while it runs."""
    ops: Many[OpRuleSection] = ()
    """Rules that change ops of the job, by name."""
    arrives: Annotated[Duration, Field(ge=0)] = 0.0
    """Time at which the job begins, or begins to wait for its components."""


def single_job(
    workload: WorkloadSection, placement: PlacementSection, steering: Any, ops: Any
) -> JobSection:
    """Job made from the top-level keys of a scenario without ``jobs``."""
    return JobSection.model_construct(
        workload=workload, placement=placement, processes=steering, ops=ops
    )


def _job_form() -> Any:
    """Pydantic model of a job in a scenario file, with the registered workloads and processes."""
    return create_model(
        "job",
        __base__=JobSection,
        __doc__=JobSection.__doc__,
        workload=workload_type(),
        processes=(process_list_type(), ()),
    )


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
