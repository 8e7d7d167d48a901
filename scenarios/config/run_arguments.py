"""Constructor arguments that the run supplies, and a file cannot give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_type_hints

from ...models.compute.cross_gpu_scaling import GpuModel
from ...sim.facts.graph import Graph
from ...sim.setting_groups import construct_with_groups
from ...sim.units import Bytes


@dataclass(frozen=True)
class GpuSettings:
    """Settings of the cluster's GPUs in SI by name, for a workload that depends on the hardware."""

    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class HostResources:
    """Resources of a machine's host, which its GPUs share.

    Parameters
    ----------
    memory : memory size in B; None if unknown
    gpus : number of GPUs in the machine
    dispatches : True if the host has a time to dispatch an operator
    """

    memory: Bytes | None = None
    gpus: int = 1
    dispatches: bool = False


RUN_ARGUMENTS = (Graph, GpuSettings, GpuModel, HostResources)


def build_from_settings(cls: type, settings: Mapping[str, Any], *given: object) -> Any:
    """Construct ``cls`` from settings and from those of ``given`` whose type its constructor takes.

    Examples
    --------
    >>> class Fast:
    ...     def __init__(self, *, share: float, gpu: GpuSettings):
    ...         self.peak = share * gpu.settings["peak"]
    >>> build_from_settings(Fast, {"share": 0.5}, GpuSettings({"peak": 4.0})).peak
    2.0
    """
    hints = _constructor_hints(cls)
    beside = {
        k: g
        for k, hint in hints.items()
        for g in given
        if hint in RUN_ARGUMENTS and hint is type(g)
    }
    return construct_with_groups(cls, {**beside, **settings})


@cache
def _constructor_hints(cls: type) -> Mapping[str, Any]:
    """Type annotations of a constructor's arguments; cached, since reading them takes 0.5 ms."""
    return get_type_hints(getattr(cls, "__init__"))  # noqa: B009  mypy
