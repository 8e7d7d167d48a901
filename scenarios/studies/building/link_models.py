"""Parts of routes (NICs, PCIe, links) with the kind of link that ``backends`` binds to them.

What has a rate is never asked how long an op takes: whoever sends reads its rate, latency,
overhead and limit.  So a link model of one's own has its say before the run, and a backend that
would only answer there is refused, since nobody would hear it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ....models.network.link import Link
from ....sim.backend import Backend
from ....sim.errors import ScenarioError
from ....sim.system import Component, System
from ...config.binding import Binding, entries_by_component, means_part_of_component
from ...config.scenario import Scenario

Answerer = Callable[[Binding, Scenario, Component], Backend]


def with_bound_link_models(made: System, scenario: Scenario, answerer: Answerer) -> System:
    """System whose parts of routes have the rates and latencies of the bound kinds of link.

    Parameters
    ----------
    answerer : makes the backend of a binding for a component

    Raises
    ------
    ScenarioError
        A binding of such parts alone whose answers nobody would hear.
    """
    if not scenario.backends:
        return made
    for glob, binding in scenario.backends.items():
        matched = [made.components[i] for i in made.match(glob)]
        asked = [part for part in matched if not means_part_of_component(glob, part, made.index)]
        if asked and all(part.rate is not None for part in asked):
            _refuse_non_link(answerer(binding, scenario, asked[0]), scenario, glob)
    components: dict[int, Component] = {}
    for number, binding in entries_by_component(scenario.backends, made).items():
        part = made.components[number]
        if part.rate is not None:
            components[number] = _with_link_numbers(answerer(binding, scenario, part), part)
    return made.with_facts(made.components.replaced(components))


def _is_plain_link(backend: Backend) -> bool:
    """True where it says only a rate, a latency, an overhead and a limit of each sender."""
    return isinstance(backend, Link) and type(backend).timing is Link.timing


def _refuse_non_link(backend: Backend, scenario: Scenario, glob: str) -> None:
    if not _is_plain_link(backend):
        raise ScenarioError(
            f"{scenario.place(f'backends.{glob}')}backends: '{glob}' is shared by what is in "
            f"flight, and {type(backend).__name__}.timing() would be asked nothing; say its "
            "bandwidth and latency under cluster, bind a Link that keeps its timing(), or bind "
            "'fabric', which every send and collective asks"
        )


def _with_link_numbers(backend: Backend, part: Component) -> Component:
    """Component with the numbers of its kind of link; unchanged where the backend is none."""
    if not isinstance(backend, Link) or not _is_plain_link(backend):
        return part
    told = backend.component(part.name, part.part)
    facts = {f: getattr(part, f) for f in ("kind", "node", "pool", "rail", "role")}
    hears = part.role == "rx"  # posting is paid where a message leaves
    return replace(told, **facts, overhead=0.0 if hears else told.overhead)
