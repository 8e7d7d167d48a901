"""``workload``: the work to simulate; ``type`` selects a registered workload."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import Field, PlainValidator, ValidationInfo, create_model

from ....sim.run.workload import Workload
from ..part_specs import Part
from ..run_arguments import NO_GPU, HostResources, UsesHardware, build_from_settings
from ..schema import REQUIRED, Section, register, validation_error
from ..settings import (
    constructor_model,
    known_workloads,
    plain_settings,
    workload_file_settings,
)

USUAL = "trace"  # the default type


class WorkloadSection(Section):
    """Settings of one registered workload."""

    type: str

    def make(self, gpu: Part | None, host: HostResources) -> Workload:
        """Construct the workload; this reads no file and runs nothing.

        Parameters
        ----------
        gpu : GPU that its ranks run on; None if the cluster has none
        host : host resources of the machines
        """
        settings = {k: v for k, v in plain_settings(self).items() if k != "type"}
        made: Workload = build_from_settings(known_workloads()[self.type], settings)
        if isinstance(made, UsesHardware):
            made.gpu, made.host = NO_GPU if gpu is None else gpu.settings, host
        return made


def workload_form(name: str) -> type[WorkloadSection]:
    """Pydantic model of a registered workload: its type and its constructor arguments."""
    return _workload_form(name, known_workloads()[name])


_forms: dict[type[Workload], type[WorkloadSection]] = {}


def _workload_form(name: str, cls: type[Workload]) -> type[WorkloadSection]:
    if cls not in _forms:
        model = constructor_model(cls)
        usual = name == USUAL
        told = f"This kind of workload{'; implied by ``trace``' if usual else ''}."
        own: Any = (Literal[name], Field(name if usual else REQUIRED, description=told))
        text, rest = (model.__doc__ or "").partition("\n")[0], model.field_definitions()
        _forms[cls] = create_model(
            f"{name}_workload", __base__=WorkloadSection, __doc__=text, type=own, **rest
        )
    return _forms[cls]


def read_workload(data: Any, info: ValidationInfo) -> WorkloadSection:
    """Read a workload of the given ``type``; a trace by default."""
    if not isinstance(data, dict):
        raise validation_error(
            "mapping", "a workload needs keys; write it like {trace: FILE}", value=data
        )
    kind, known = data.get("type", USUAL), known_workloads()
    if not isinstance(kind, str) or kind not in known:
        message = f"no workload type '{kind}'; there is: {', '.join(known)}"
        raise validation_error("not-one-of", message, "type", kind)
    return workload_form(kind).model_validate(data, context=info.context)


def workload_type() -> Any:
    """Type of a workload section of any registered type."""
    kinds: Any = Union[tuple(map(workload_form, known_workloads()))]  # noqa: UP007  only known now
    return Annotated[WorkloadSection, PlainValidator(read_workload, json_schema_input_type=kinds)]


register(
    "workload",
    workload_type,
    None,
    help="The work to simulate; for several workloads write `jobs` instead.",
    files=workload_file_settings,
)
