"""Explanation of one or several components: what they are, rates, users, and sources of values."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ....models.compute.chain import Chain
from ....reports.numbers import format_quantity, three_digits
from ....sim.errors import ForetraceError
from ....sim.facts.backend import Backend
from ....sim.facts.system import Component, System
from ....sim.rerun.sensitivity import ScaledBackend
from ...config.binding import entry_for_component, matches_only_subcomponent
from ...config.component_names import meaning_of_name
from ...config.explanation import Explanation
from ..building.jobs import components_of_ranks, pools_of
from ..building.system import build_backends
from ..confidence.unmeasured import time_bounds_of_part

if TYPE_CHECKING:
    from ...config.part_specs import ComponentOverride
    from ...config.scenario import Origin, Scenario

Ints = NDArray[np.int64]
PAIRS = 250_000  # most pairs of sender and receiver whose routes are looked up
NAMED = 4  # most machines that are listed by name
UNBOUNDED = 2**31 - 1  # number of slots that means "no limit"
PLAYED = {"gpu": "streams", "host": "cores", "dma": "copy engines"}  # name of slots by kind
ENDS = {"tx": "gpu", "rx": "gpu", "d2h": "host", "h2d": "host", "to_nic": "nic", "from_nic": "nic"}
"""Part at the other end of a GPU's link, by the role of the link."""
OF_GPU = {"hbm": ("bandwidth", "memory_efficiency"), "dma": ("copy_engines",), "core": ("core",),
          "memory": ("memory", "capacity")}  # fmt: skip
"""Settings of a GPU that describe one of its parts, by the role of the part."""


def parts_named(name: str, system: System) -> tuple[int, ...]:
    """Indices of the components that a name matches, the component itself first.

    The name is a component (with its subcomponents), a machine or switch, a glob as in
    ``override``, ``kind:POOL``, or a kind of component.

    >>> names = ("leaf0.up", "leaf0.down", "leaf1.up")
    >>> system = System(tuple(Component(name, "switch", rate=1.0) for name in names))
    >>> [parts_named(n, system) for n in ("leaf0", "leaf1.up", "*.up", "switch", "leaf2")]
    [(0, 1), (2,), (0, 2), (0, 1, 2), ()]
    """
    below = tuple(i for i, c in enumerate(system.components) if c.name.startswith(f"{name}."))
    if name in system.index:
        return (system.index[name], *below)
    by_glob = tuple(
        i
        for i in system.match(name)
        if not matches_only_subcomponent(name, system.components[i], system.index)
    )
    by_kind = tuple(i for i, c in enumerate(system.components) if c.kind == name)
    return below or by_glob or by_kind


def explain_part(name: str, scenario: Scenario, system: System) -> Explanation | None:
    """Explanation of the components that a name matches on a scenario's machine; None for none.

    Examples
    --------
    >>> from ...config.loader import load
    >>> from ..building.system import build_system
    >>> scenario = load("thin-spine")
    >>> told = explain_part("node0.nic0.tx", scenario, build_system(scenario))
    >>> told.facts["rate"], told.facts["used by"]
    ('50 GB/s, shared by concurrent ops', 'data from node0.gpu0 to 31 GPUs of 31 machines')
    """
    numbers = parts_named(name, system)
    if not numbers:
        return None
    parts = [system.components[i] for i in numbers]
    own, inside = (parts[0], parts[1:]) if parts[0].name == name else (None, parts)
    what = meaning_of_name(name) if own is not None or "*" not in name else ""
    what = what or (f"A part of kind {own.kind}." if own else "Parts that match this name.")
    facts = _facts(own, scenario, system) if own else {"parts": f"{len(parts):,}"}
    if own is None and (override := scenario.cluster.override.get(name)) is not None:
        facts["override"] = _override_text(override)
    paths = {_setting_path(part, scenario) for part in ([own] if own else parts)}
    path = paths.pop() if len(paths) == 1 else ""
    facts |= _error_fact(scenario, path) if path else {}
    below = dict(_values(scenario, path, own)) | dict(_list_parts(inside))
    return Explanation(name, what, facts, below)


def _facts(part: Component, scenario: Scenario, system: System) -> dict[str, str]:
    """Facts about one component, by label."""
    number = system.index[part.name]
    found = {"kind": ", ".join(filter(None, (part.kind, part.part)))}
    if part.node:
        found["machine"] = f"{part.node}, of kind {part.pool}" if part.pool else part.node
    if offer := _rate_or_slots(part):
        found[offer[0]] = offer[1]
    for key, value in (("latency", part.latency), ("overhead", part.overhead)):
        if value:
            found[key] = format_quantity(value, "s")
    if part.limit < math.inf:
        found["limit"] = f"{format_quantity(part.limit, f'{part.unit}/s')} per sender"
    if (override := entry_for_component(scenario.cluster.override, part, system.index)) is not None:
        found["override"] = _override_text(override)
    if users := _ranks_on(part, scenario, system) or _users_text(number, system):
        found["used by"] = users
    if told := _backends_text(part, scenario, system):
        found["answers"] = told
    return found


def _override_text(override: ComponentOverride) -> str:
    return "down" if override.down else f"{three_digits(override.slowdown)} times slower"


def _ranks_on(part: Component, scenario: Scenario, system: System) -> str:
    """Ranks of each job that are placed on a GPU, as text; "" for another component."""
    found, pools = [], pools_of(scenario, system) if part.kind == "gpu" else {}
    for name, own in pools.items():
        named = next(iter(own.values()), system.gpus)
        places = components_of_ranks(scenario.jobs[name].placement, system) or named
        if not isinstance(places, int) and part.name in places:
            whose = f" of {name}" * (len(pools) > 1)
            found.append(f"rank {places.index(part.name)}{whose}, if there are that many ranks")
    return "; ".join(found)


def _rate_or_slots(part: Component) -> tuple[str, str] | None:
    """Label and amount of what a component offers (rate, capacity or slots); None for nothing."""
    if part.rate is not None and part.role != "core":
        return "rate", f"{format_quantity(part.rate, f'{part.unit}/s')}, shared by concurrent ops"
    if part.capacity is not None:
        return "capacity", f"{part.capacity:,} {part.unit}"
    if part.slots is None:
        return None
    many = "unlimited" if part.slots >= UNBOUNDED else f"{part.slots:,} at once"
    return PLAYED.get(part.kind, "slots"), many


def _backends_text(part: Component, scenario: Scenario, system: System) -> str:
    """Backends that time the ops of a component, as text; "" if it needs none."""
    if part.slots is None and part.name != system.fabric:
        return ""
    try:
        bound = build_backends(scenario, system).get(part.name)
    except ForetraceError:
        return ""  # ``validate`` reports this error
    return " then ".join(_backend_names(bound))


def _backend_names(backend: Backend | None) -> Iterator[str]:
    if isinstance(backend, ScaledBackend):
        yield from _backend_names(backend.inner)
    elif isinstance(backend, Chain):
        for link in backend.links:
            yield from _backend_names(link)
    elif backend is not None:
        yield backend.registered_name or type(backend).__name__


def _users_text(number: int, system: System) -> str:
    """Users of a component as text: its senders and receivers, or the GPUs it belongs to."""
    name = system.components[number].name
    owners = [system.index[gpu] for gpu, own in system.parts.items() if name in own.values()]
    if system.components[number].rate is not None:
        sent, heard, whole = _senders_and_receivers(number, system)
        if len(sent):
            senders, receivers = _endpoints_text(sent, system), _endpoints_text(heard, system)
            return f"data from {'' if whole else 'about '}{senders} to {receivers}"
    return _endpoints_text(owners, system) if owners else ""


def _senders_and_receivers(number: int, system: System) -> tuple[Ints, Ints, bool]:
    """Senders and receivers whose data cross a component; True if all pairs were checked."""
    with_gpu = {system.components[g].node for g in system.numbers}
    hosts = [
        i for i, c in enumerate(system.components) if c.kind == "host" and c.node not in with_gpu
    ]
    every = np.array([*system.numbers, *hosts], np.int64)
    step = max(1, -(-(len(every) ** 2) // PAIRS))
    some = every[::step]
    source = np.concatenate([np.repeat(every, len(some)), np.tile(some, len(every))])
    target = np.concatenate([np.tile(some, len(every)), np.repeat(every, len(some))])
    apart = source != target
    source, target = source[apart], target[apart]
    try:
        crossed = system.crossings(source, target)
    except ForetraceError:
        return every[:0], every[:0], True  # some pairs have no route; a run reports that
    flows = crossed.flow[crossed.component == number]
    return np.unique(source[flows]), np.unique(target[flows]), step == 1


def _endpoints_text(numbers: Iterable[int], system: System) -> str:
    """Text that names several GPUs or hosts: one by its name, several by their machines."""
    parts = [system.components[i] for i in numbers]
    if len(parts) == 1:
        return parts[0].name
    kinds = {part.kind for part in parts}
    what = {"gpu": "GPUs", "host": "hosts"}.get(kinds.pop(), "parts") if len(kinds) == 1 else "ends"
    nodes = list(dict.fromkeys(part.node for part in parts))
    where = ", ".join(nodes) if len(nodes) <= NAMED else f"{len(nodes):,} machines"
    return f"{len(parts):,} {what} of {where}"


def _setting_path(part: Component, scenario: Scenario) -> str:
    """Path of the cluster section that describes a component; "" for none."""
    if part.kind == "fabric":
        return "cluster.fabric.library"
    if not part.node:
        return "cluster.fabric.switch"
    machine = next(m for m in scenario.cluster.machines() if m.pool == part.pool)
    base = f"cluster.{machine.path}"
    if part.kind == "link" and part.role in ENDS:
        wanted = {"gpu", ENDS[part.role]}
        joins = (i for i, link in enumerate(machine.node.links) if {link.from_, link.to} == wanted)
        return f"{base}.links.{next(joins, 0)}"
    inside = part.name.removeprefix(f"{part.node}.").partition(".")[0].rstrip("0123456789")
    return f"{base}.{'memory' if inside == 'dram' else inside}"


def _error_fact(scenario: Scenario, path: str) -> dict[str, str]:
    """Error interval of a part's unmeasured values, as fact ``doubt``; {} without such values."""
    told = [
        f"{what}: {' to '.join(three_digits(math.exp(end)) for end in ends)} times the stated "
        "value (90 %)"
        for what, ends in time_bounds_of_part(scenario, path).items()
    ]
    return {"doubt": "; ".join(told)} if told else {}


def _values(scenario: Scenario, path: str, part: Component | None) -> Iterator[tuple[str, str]]:
    """Path and text of each value of a part, with its source."""
    wanted = OF_GPU.get(part.role) if part is not None else None
    beside = ("cluster.fabric.oversubscription", "cluster.fabric.topology")
    for where, origin in scenario.origins.items():
        own = bool(path) and where.startswith(f"{path}.")
        joins = path == "cluster.fabric.switch" and where.startswith(beside)
        if joins or (own and (wanted is None or where.removeprefix(f"{path}.") in wanted)):
            yield where, f"{origin.text}  ({source_text(origin)})"


def source_text(origin: Origin) -> str:
    """Source of a value and its error, as text.

    >>> from ...config.loader import load
    >>> source_text(load("thin-spine").origins["cluster.nodes"])
    'written at foretrace:thin-spine:11:10'
    """
    source = origin.source
    if source is None:
        return f"written at {origin.where}" if origin.where else "default"
    error = f"error {source.error}" if source.error else ""
    return f"{source.kind}: {'; '.join(filter(None, (source.where, error, source.note)))}"


def _list_parts(parts: Sequence[Component]) -> Iterator[tuple[str, str]]:
    """One line per name pattern among components: first and last name, and meaning."""
    alike: dict[str, list[Component]] = {}
    for part in parts:
        alike.setdefault(form_of_name(part.name), []).append(part)
    for several in alike.values():
        first, last = several[0], several[-1]
        offers = {offer for part in several if (offer := _rate_or_slots(part))}
        amount = f" ({' '.join(offers.pop())})" if len(offers) == 1 else ""
        names = first.name if first is last else f"{first.name} … {last.name}"
        yield names, f"{meaning_of_name(first.name) or first.kind}{amount}"


def form_of_name(name: str) -> str:
    """Component name with its numbers replaced by ``#``.

    >>> form_of_name("node3.gpu11.tx")
    'node#.gpu#.tx'
    """
    return re.sub(r"\d+", "#", name)


def near_part_text(name: str, system: System, *, alike: bool = False) -> str:
    """Hint with components of a similar name; "" for none.

    Parameters
    ----------
    alike : True for names that differ in numbers only

    Examples
    --------
    >>> names = ("leaf0.up", "leaf1.up", "node0.gpu0")
    >>> system = System(tuple(Component(name, "any") for name in names))
    >>> near_part_text("leaf9.up", system), near_part_text("node0.gqu0", system)
    ('there are leaf0.up … leaf1.up', "did you mean 'node0.gpu0'?")
    >>> near_part_text("nonsense", system)
    ''
    """
    forms: dict[str, list[str]] = {}
    for part in system.components:
        words = part.name.split(".")
        for n in range(1, len(words) + 1):
            forms.setdefault(form_of_name(".".join(words[:n])), []).append(".".join(words[:n]))
    there = forms.get(form_of_name(name))
    if there:
        return (
            f"there are {there[0]} … {there[-1]}" if len(set(there)) > 1 else f"there is {there[0]}"
        )
    near = [] if alike else difflib.get_close_matches(form_of_name(name), forms, 1)
    if not near:
        return ""
    names = forms[near[0]]
    return f"did you mean '{difflib.get_close_matches(name, names[:200], 1, 0.0)[0]}'?"
