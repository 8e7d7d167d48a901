"""Preflight: ops that a model would refuse, all of them, before anything is simulated.

An op without flop cannot be answered by a roofline; which ops a trace has, and what is known of
each, is only seen when it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ....sim.facts.graph import Graph
from ....sim.facts.place import place
from ....sim.record.binding import backend_refusals
from ...config.binding import entry_for_component
from ...config.hil_settings import devices_drive_run
from ...config.problems import FilePosition, InvalidScenarioError, Problem
from ...config.scenario import Scenario
from ..building.chain_shares import Shares, chain_shares, has_chain
from ..building.jobs import components_of_ranks, first_possible_components, pools_of

if TYPE_CHECKING:
    from .variant import Variant

SHOWN = 4  # ops of one problem


def require_answers(points: Iterable[Variant]) -> None:
    """Refuse variants of which a model cannot answer an op.

    Raises
    ------
    InvalidScenarioError
        One problem for each thing that is wrong, with the ops concerned, of all variants.
    """
    found = {p.message: p for one in points for p in _unanswerable_ops(one)}
    if found:
        raise InvalidScenarioError(found.values())


def _unanswerable_ops(point: Variant) -> Iterator[Problem]:
    scenario, simulation = point.scenario, point.simulation
    if devices_drive_run(scenario):
        return  # devices time the ops, not models
    _open_backends(point)
    names = simulation.system.index
    globs = {glob: glob for glob in scenario.backends}
    alike: dict[tuple[str, str], list[str]] = {}
    known = (
        g for g in _known_placed_graphs(point) if g.template is None
    )  # a template is not expanded here
    for _, asked, why in (r for graph in known for r in backend_refusals(graph, simulation.bound)):
        glob = entry_for_component(globs, simulation.system.components[asked[0]], names)
        op, why = _split_message(why)
        alike.setdefault((f"backends.{glob}" if glob else "backends", why), []).append(op)
    for (path, why), ops in alike.items():
        yield Problem("unanswerable", f"{_list_ops(ops)}{why}", setting_position(scenario, path))


def chain_shares_of_point(point: Variant) -> dict[str, Shares]:
    """Shares of the links of a variant's chains, by kind of component; empty without chains."""
    if devices_drive_run(point.scenario) or not any(map(has_chain, point.simulation.answerers)):
        return {}
    _open_backends(point)
    return chain_shares(_known_placed_graphs(point), point.simulation.bound)


def known_graphs(point: Variant) -> list[Graph]:
    """Graphs of a point that are known before it runs, placed, its backends opened."""
    _open_backends(point)
    return _known_placed_graphs(point)


def _open_backends(point: Variant) -> None:
    for backend in point.simulation.answerers:
        if not backend.online:
            backend.open(point.simulation.system)


def _known_placed_graphs(point: Variant) -> list[Graph]:
    """Graphs that are known before the run, placed."""
    return [point.graph] if point.graph is not None else _placed_graphs(point)


def _placed_graphs(point: Variant) -> list[Graph]:
    """The graphs of several jobs, each on components that it could have."""
    system, found = point.simulation.system, []
    pools = pools_of(point.scenario, system)
    for name, graph in point.built.graphs.items():
        needs = point.workloads[name].needs
        on = next(iter(first_possible_components(pools[name], needs, system).values()), None)
        ranks = components_of_ranks(point.scenario.jobs[name].placement, system) or on
        if graph is not None:
            found.append(place(graph, system, ranks))
    return found


def _split_message(why: str) -> tuple[str, str]:
    """The op of a message, and what is wrong with it.

    >>> _split_message("op 3 (compute:mm): flop are unknown")
    ('op 3 (compute:mm)', ': flop are unknown')
    """
    found = re.fullmatch(r"(op \d+ \(.*?\))(: .*)", why, re.S)
    return (found[1], found[2]) if found else ("", why)


def _list_ops(ops: list[str]) -> str:
    """Text with the first few ops, and the number of the others."""
    named = [op for op in ops if op]
    rest = len(named) - SHOWN
    more = f" and {rest} more different ops" if rest > 0 else ""
    return ", ".join(named[:SHOWN]) + more


def setting_position(scenario: Scenario, path: str) -> FilePosition:
    """Place of a setting; the file alone where no value of it was written."""
    said = (o.where for p, o in scenario.origins.items() if p.startswith(path) and o.where)
    where = next(said, "")
    parts = where.rsplit(":", 2)
    if len(parts) < 3:
        return FilePosition(scenario.file, path=path)
    file, line, column = parts
    return FilePosition(file, int(line), int(column), path=path)
