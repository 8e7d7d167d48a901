"""Preflight check: all ops that a model cannot time, found before anything is simulated.

For example, a roofline cannot time an op without a flop count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....sim.facts.graph import Graph
from ....sim.facts.place import place
from ....sim.record.binding import backend_refusals
from ...config.binding import entry_for_component
from ...config.hil_settings import devices_drive_run
from ...config.problems import Problem
from ..building.chain_shares import Shares, chain_shares, has_chain
from ..building.jobs import components_of_ranks, first_possible_components, pools_of

if TYPE_CHECKING:
    from .variant import Variant

SHOWN = 4  # ops of one problem


def unanswerable_op_problems(point: Variant) -> Iterator[Problem]:
    """One problem for each thing that is wrong with ops that a model cannot answer."""
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
        yield Problem("unanswerable", f"{_list_ops(ops)}{why}", scenario.spot(path))


def chain_shares_of_point(point: Variant) -> dict[str, Shares]:
    """Fraction of time per backend of a variant's chains, by kind of component; {} for none."""
    if devices_drive_run(point.scenario) or not any(
        map(has_chain, point.simulation.distinct_backends)
    ):
        return {}
    _open_backends(point)
    return chain_shares(_known_placed_graphs(point), point.simulation.bound)


def known_graphs(point: Variant) -> list[Graph]:
    """Placed graphs of a variant that are known before the run; also opens its backends."""
    _open_backends(point)
    return _known_placed_graphs(point)


def _open_backends(point: Variant) -> None:
    for backend in point.simulation.distinct_backends:
        if not backend.online:
            backend.open(point.simulation.system)


def _known_placed_graphs(point: Variant) -> list[Graph]:
    """Placed graphs that are known before the run."""
    return [point.graph] if point.graph is not None else _placed_graphs(point)


def _placed_graphs(point: Variant) -> list[Graph]:
    """Graphs of several jobs, each placed on components that the job could get."""
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
    """Split a message into the op that it names and the cause.

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
