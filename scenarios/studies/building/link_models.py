"""Links, NICs and ports of a route take their numbers from a bound link model before the run.

A component with a shared rate is never asked for the duration of an op: sends read its rate,
latency, overhead and limit. A bound backend that is not a plain link would be ignored, so it is an
error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ....models.network.part.link import Link
from ....sim.errors import ScenarioError
from ....sim.facts.backend import Backend
from ....sim.facts.system import Component, System
from ...config.binding import Binding, component_indices_of_glob, entry_index_by_component
from ...config.scenario import Scenario

BackendMaker = Callable[[Binding, Scenario, Component], Backend]


def with_bound_link_models(
    system: System, scenario: Scenario, make_backend: BackendMaker
) -> System:
    """System whose links have the rates and latencies of the link models bound to them.

    Parameters
    ----------
    make_backend : function that makes the backend of a binding for a component

    Raises
    ------
    ScenarioError
        A backend that is not a plain link is bound to such components only.
    """
    if not scenario.backends:
        return system
    for glob, binding in scenario.backends.items():
        asked = component_indices_of_glob(glob, system)
        if len(asked) and np.all(system.components.column_of(asked, _has_rate, bool)):
            _refuse_non_link(
                make_backend(binding, scenario, system.components[asked[0]]), scenario, glob
            )
    components = system.components
    entry = entry_index_by_component(scenario.backends, system)
    for k, binding in enumerate(scenario.backends.values()):

        def changed(part: Component, binding: Binding = binding) -> Component:
            return _with_link_numbers(make_backend(binding, scenario, part), part)

        rated = (entry == k) & system.components.column(_has_rate, bool)
        components = components.with_changed(np.flatnonzero(rated), changed)
    return system.with_components(components)


def _has_rate(part: Component) -> bool:
    return part.rate is not None


def _is_plain_link(backend: Backend) -> bool:
    """True if a backend only supplies a rate, a latency, an overhead and a limit per sender."""
    return isinstance(backend, Link) and type(backend).timing is Link.timing


def _refuse_non_link(backend: Backend, scenario: Scenario, glob: str) -> None:
    if not _is_plain_link(backend):
        raise ScenarioError(
            f"{scenario.message_prefix(f'backends.{glob}')}backends: '{glob}' matches links, "
            f"whose rate ops share, so {type(backend).__name__}.timing() would never be called; "
            "write its bandwidth and latency under cluster, bind a Link that keeps its timing(), "
            "or bind 'fabric', which times every send and collective"
        )


def _with_link_numbers(backend: Backend, part: Component) -> Component:
    """Component with the numbers of a link model; unchanged if the backend is not a plain link."""
    if not isinstance(backend, Link) or not _is_plain_link(backend):
        return part
    told = backend.component(part.name, part.part)
    overhead = 0.0 if part.role == "rx" else told.overhead  # paid where a message leaves
    return replace(told, kind=part.kind, location=part.location, overhead=overhead)
