"""Constructor arguments that the run supplies, and a file cannot give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, get_type_hints

from ...models.compute.cross_gpu_scaling import GpuModel
from ...sim.facts.graph import Graph
from ...sim.setting_groups import construct_with_groups
from ...sim.units import Bytes


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


NO_GPU: Mapping[str, Any] = MappingProxyType({})
NO_HOST = HostResources()


class UsesHardware:
    """Base of a workload that depends on the hardware, which its scenario sets before it starts.

    Attributes
    ----------
    gpu : settings of the cluster's GPUs in SI by name
    host : host resources of its machines
    """

    gpu: Mapping[str, Any] = NO_GPU
    host: HostResources = NO_HOST


RUN_ARGUMENTS = (Graph, GpuModel)


def build_from_settings(cls: type, settings: Mapping[str, Any], *given: object) -> Any:
    """Construct ``cls`` from settings and from those of ``given`` whose type its constructor takes.

    Examples
    --------
    >>> class Half:
    ...     def __init__(self, *, share: float, graph: Graph):
    ...         self.ops = share * len(graph)
    >>> from foretrace.sim.facts.graph import Builder
    >>> build_from_settings(Half, {"share": 0.5}, Builder("none").graph()).ops
    0.0
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
