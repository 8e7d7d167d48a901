"""System: the components of a machine and the routes between them, without behaviour."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, NamedTuple, Protocol, SupportsIndex, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..argument import shown
from ..errors import GraphError
from ..units import Seconds
from .component import CORE as CORE
from .component import UNCOUNTED as UNCOUNTED
from .component import Component as Component
from .component import Location as Location
from .component_list import ComponentList
from .part_names import NameSubset, PartsByRole

FEW = 32  # up to this number of flows, the route cache is faster
WITHOUT_FACTS = (
    "numbers",
    "is_gpu",
    "machine_numbers",
    "_matches",
    "_components_by_role",
    "_route_cache",
    "_share_cache",
)


WITHOUT_ROUTES = (
    "numbers",
    "machine_numbers",
    "has_slots",
    "rate_units",
    "_matches",
    "_components_by_role",
    "_delay_of_each",
)


class Route(NamedTuple):
    """One route between two GPUs.

    Parameters
    ----------
    components : numbers of the rate components (links) that data cross, in order
    weight : relative share of the data on this route; shares of all routes of a pair are normalised
    """

    components: tuple[int, ...]
    weight: float = 1.0


Pick = int | Sequence[str]
"""Choice of a route: its index among ``System.routes``, or names of the components in order."""

Router = Callable[[int, int], Sequence[int] | Sequence[Route]]
"""From GPU to GPU, by number: the components that data cross, or several routes."""


class Crossings(NamedTuple):
    """Table of the components that flows cross: one row per flow and component.

    Parameters
    ----------
    flow, component : (n,) flow number and component number of each row; rows of a flow are in
        crossing order
    share : (n,) fraction of the flow's data; a component on two routes of a flow has two rows
    """

    flow: NDArray[np.int64]
    component: NDArray[np.int64]
    share: NDArray[np.float64]


@runtime_checkable
class FlowRouter(Protocol):
    """Interface of a router that routes many flows in one call, with the same result as one by one.

    Attributes
    ----------
    sprays : True if the data of a pair take too many routes to list
    """

    sprays: bool

    def __call__(self, a: int, b: int) -> Sequence[int] | Sequence[Route]:
        """Routes of one pair of GPUs."""
        ...

    def crossings(
        self, source: NDArray[np.int64], target: NDArray[np.int64], label: NDArray[np.int64] | int
    ) -> Crossings:
        """Components that many flows cross; ``label`` distinguishes flows of one pair."""
        ...

    def loads(
        self, source: NDArray[np.int64], target: NDArray[np.int64], amount: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Components, and the total amount that all flows together send over each."""
        ...

    def highest_route_cost(
        self, source: NDArray[np.int64], target: NDArray[np.int64], cost: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Largest total cost of a route of each flow, shape (flows,); NaN if there is no route.

        ``cost`` is a cost per component, such as its latency.
        """
        ...


@runtime_checkable
class ExchangeRouter(Protocol):
    """Interface of a router that computes loads of an all-to-all without visiting all pairs."""

    def exchange_loads(
        self, members: NDArray[np.int64], amount: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Components and the amount over each if every member sends ``amount`` to every other one.

        None if the router cannot compute it.
        """
        ...


@runtime_checkable
class AvoidingRouter(Protocol):
    """Interface of a router that can route around failed components.

    Attributes
    ----------
    avoidable : numbers of the components that it can route around
    """

    avoidable: frozenset[int]

    def __call__(self, a: int, b: int) -> Sequence[int] | Sequence[Route]:
        """Routes of one pair of GPUs."""
        ...

    def avoiding(self, components: Iterable[int]) -> AvoidingRouter:
        """Router that also avoids these components; raises GraphError if no other route exists."""
        ...


@runtime_checkable
class PartialRouter(Protocol):
    """Interface of a router that knows which machines no data can leave.

    Attributes
    ----------
    cut_off : (components,) True in a machine without a NIC, if there are several machines
    domain : (components,) components with the same number may reach each other without NICs
    """

    cut_off: NDArray[np.bool_]
    domain: NDArray[np.int64]


def no_route(a: int, b: int) -> Sequence[int]:
    """Router of a system without a network; every route is empty."""
    return ()


@dataclass(frozen=True)
class System:
    """Machine: its components, the parts of each GPU, and the routes between GPUs.

    Parameters
    ----------
    components : ComponentList
        All components; a sequence of Component is converted.
    gpus : names in rank order
        GPU of each rank, unless a placement chooses others.
    parts : mapping
        Parts of each GPU by role: ``{"node0.gpu0": {"host": "node0.host", "dma": "node0.gpu0.dma",
        "hbm": "node0.gpu0.hbm"}}``.
    router : Router
        Function from GPU a and GPU b to the rate components on the route, in order; or to several
        routes that share the data.
    fabric : str
        Component whose backend times sends and collectives; "" for none.

    Examples
    --------
    >>> link = Component("wire", "link", rate=1e9, latency=1e-6)
    >>> gpus = [Component(f"node{i}.gpu0", "gpu", slots=1) for i in range(2)]
    >>> system = System((*gpus, link), ("node0.gpu0", "node1.gpu0"), router=lambda a, b: (2,))
    >>> system.route(0, 1), system.match("node*.gpu*")
    ((2,), (0, 1))
    """

    components: ComponentList
    gpus: Sequence[str] = ()
    parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    router: Router = field(default=no_route, repr=False)
    fabric: str = ""

    def __init__(
        self,
        components: Iterable[Component],
        gpus: Sequence[str] = (),
        parts: Mapping[str, Mapping[str, str]] | None = None,
        router: Router = no_route,
        fabric: str = "",
    ):
        facts = {"components": ComponentList.of(components), "gpus": gpus, "parts": parts or {}}
        for name, value in (*facts.items(), ("router", router), ("fabric", fabric)):
            object.__setattr__(self, name, value)

    @property
    def index(self) -> Mapping[str, int]:
        """Mapping from component name to component number."""
        return self.components.by_name

    def with_components(self, components: ComponentList) -> System:
        """Copy of the system whose components have other rates, latencies or capacities.

        The components must have the same names and order. Cached names, roles and routes are kept;
        if nothing differs, the system itself is returned.

        Examples
        --------
        >>> wire = Component("wire", "link", rate=1e9)
        >>> gpus = [Component(f"gpu{i}", "gpu", slots=1) for i in range(2)]
        >>> system = System((wire, *gpus), ("gpu0", "gpu1"), router=lambda a, b: (0,))
        >>> faster = system.components.with_replaced({0: replace(wire, rate=2e9)})
        >>> system.with_components(faster).bandwidth(1, 2)
        2000000000.0
        >>> system.with_components(system.components.with_replaced({0: wire})) is system
        True
        """
        if components is self.components:
            return self
        made = replace(self, components=components)
        vars(made).update({name: getattr(self, name) for name in WITHOUT_FACTS})
        return made

    def __getitem__(self, name: str) -> Component:
        return self.components[self.number(name)]

    def number(self, name: str) -> int:
        """Number of the component with the given name.

        Raises
        ------
        GraphError
            There is no such component; the message names the nearest.
        """
        if not isinstance(name, str):
            raise GraphError(
                "unknown component", f"{shown(name)} is not the name of a component; give a text"
            )
        if name not in self.index:
            near = difflib.get_close_matches(name, self.index, 1)
            hint = (
                f"did you mean {near[0]!r}?" if near else f"the first are {list(self.index)[:12]}"
            )
            raise GraphError("unknown component", f"no component is named {name!r}; {hint}")
        return self.index[name]

    def match(self, pattern: str) -> tuple[int, ...]:
        """Numbers of the components that a glob matches: by name, or by pool as ``kind:POOL.gpu*``.

        A pattern that equals a component's name matches only that component.

        >>> System((Component("gpu[0]", "gpu"), Component("gpu0", "gpu"))).match("gpu[0]")
        (0,)
        >>> spare = Component("node7.gpu0", "gpu", location=Location("node7", "spare"))
        >>> System((spare,)).match("kind:spare.gpu*"), System((spare,)).match("node0.*")
        ((0,), ())
        """
        return tuple(self.matching(pattern).tolist())

    def matching(self, pattern: str) -> NDArray[np.int64]:
        """Numbers of the components that a glob matches, as an array; see :meth:`match`."""
        if pattern in self.index:
            return np.array([self.index[pattern]])
        if pattern not in self._matches:
            self._matches[pattern] = self.components.matching(
                lambda part: matches_pattern(pattern, part), by_digits=depends_on_digits(pattern)
            )
        return self._matches[pattern]

    @cached_property
    def _matches(self) -> dict[str, NDArray[np.int64]]:
        return {}

    def select(
        self, *, kind: str | None = None, node: str | None = None, pool: str | None = None
    ) -> tuple[str, ...]:
        """Names of the components that match all given criteria.

        Parameters
        ----------
        kind : kind of component: ``gpu``, ``nic``, ``host``
        node : name of its machine
        pool : kind of its machine

        Raises
        ------
        GraphError
            No component has the kind, node or pool; the message lists those that exist.

        Examples
        --------
        >>> gpus = [Component(f"node{i}.gpu0", "gpu", location=Location(f"node{i}", "trainer"))
        ...         for i in range(2)]
        >>> System(tuple(gpus)).select(kind="gpu", node="node1", pool="trainer")
        ('node1.gpu0',)
        """
        wanted = {"kind": kind, "node": node, "pool": pool}
        key = (kind, node, pool)
        if key not in self._selections:
            self._selections[key] = self._select(wanted)
        return self._selections[key]

    @cached_property
    def _selections(self) -> dict[tuple[str | None, ...], tuple[str, ...]]:
        return {}

    def of_kind(self, kind: str) -> tuple[str, ...]:
        """Names of the components of a kind; () if there are none.

        >>> System((Component("node0.host", "host", slots=1),)).of_kind("gpu")
        ()
        """
        has = any(part.kind == kind for part in self.components.parts)
        return self.select(kind=kind) if has else ()

    def _select(self, wanted: Mapping[str, str | None]) -> tuple[str, ...]:
        found = np.arange(len(self.components))
        for fact, value in wanted.items():
            if value is None:
                continue
            told = self._texts_of(fact)
            if not np.any(told == value):
                known = ", ".join([t for t in dict.fromkeys(told.tolist()) if t][:12]) or "none"
                raise GraphError(
                    "unknown component", f"no component has {fact} {value!r}; known are {known}"
                )
            found = found[told[found] == value]
        return tuple(self.components.names.name(i) for i in found.tolist())

    def _texts_of(self, fact: str) -> NDArray[Any]:
        """Kind, pool or machine name of each component, shape (components,)."""
        if fact == "node":
            return np.array([*map(self.node_of, range(len(self.components)))], object)
        return self.components.column(lambda part: getattr(part, fact), object)

    def part(self, gpu: int, role: str) -> int:
        """Number of a GPU's component with a role, such as its host or HBM; -1 if there is none."""
        return int(self.components_in_role(role)[gpu])

    def equivalence_classes(self, components: NDArray[np.int64]) -> NDArray[np.int64]:
        """Class number of components; equal for equal kind, rate, limit, latency and overhead.

        Components in machines and components between machines are in different classes.

        >>> wires = [Component(f"wire{i}", "link", rate=r) for i, r in enumerate((1e9, 2e9, 1e9))]
        >>> System(tuple(wires)).equivalence_classes(np.array([0, 1, 2])).tolist()
        [0, 1, 0]
        """
        return self._equivalence_classes[components]

    @cached_property
    def _equivalence_classes(self) -> NDArray[np.int64]:
        seen: dict[object, int] = {}

        def number(p: Component) -> int:
            facts = p.kind, p.rate, p.latency, p.overhead, p.limit, bool(p.node)
            return seen.setdefault(facts, len(seen))

        return self.components.column(number, np.int64)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Component numbers of the GPUs, in rank order."""
        if isinstance(self.gpus, NameSubset):
            return tuple(self.gpus.numbers.tolist())
        return tuple(self.number(name) for name in self.gpus)

    @cached_property
    def is_gpu(self) -> NDArray[np.bool_]:
        """(components,) True for the GPUs, on which ranks are unless a placement says otherwise."""
        found: NDArray[np.bool_] = np.zeros(len(self.components), np.bool_)
        found[list(self.numbers)] = True
        return found

    def components_in_role(self, role: str) -> NDArray[np.int32]:
        """Array over all components: for a GPU, the number of its part with the role; else -1."""
        if role not in self._components_by_role:
            self._components_by_role[role] = self._find_components_in_role(role)
        return self._components_by_role[role]

    def _find_components_in_role(self, role: str) -> NDArray[np.int32]:
        if isinstance(self.parts, PartsByRole):
            return self.parts.components_in_role(role, len(self.components))
        found = np.full(len(self.components), -1, np.int32)
        for name, parts in self.parts.items():
            if role in parts:
                found[self.number(name)] = self.number(parts[role])
        return found

    def first_in_machine(self, role: str) -> NDArray[np.int32]:
        """First component in a role in the machine of each component; -1 if there is none.

        >>> at = [Location("node0"), Location("node0", role="nf"), Location("node1")]
        >>> System([Component(str(k), "x", location=a) for k, a in enumerate(at)]).first_in_machine(
        ...     "nf").tolist()
        [1, 1, -1]
        """
        key = f"first {role}"
        if key not in self._components_by_role:
            own = np.flatnonzero(self.components.column(lambda part: part.role == role, bool))
            first = np.full(int(self.machine_numbers.max(initial=-1)) + 2, -1, np.int32)
            first[self.machine_numbers[own][::-1]] = own[::-1]
            first[-1] = -1  # of components between machines
            self._components_by_role[key] = first[self.machine_numbers]
        return self._components_by_role[key]

    def parts_by_gpu(self, role: str) -> dict[int, int]:
        """Number of the part with a role, by the GPU's number; GPUs without one are left out.

        >>> parts = Component("gpu0", "gpu", slots=1), Component("hbm", "memory", rate=1e12)
        >>> System(parts, ("gpu0",), {"gpu0": {"hbm": "hbm"}}).parts_by_gpu("hbm")
        {0: 1}
        """
        gpus = np.array(self.numbers, np.int64)
        part = self.components_in_role(role)[gpus]
        has = part >= 0
        return dict(zip(gpus[has].tolist(), part[has].tolist(), strict=True))

    @cached_property
    def _components_by_role(self) -> dict[str, NDArray[np.int32]]:
        return {}

    def node_of(self, component: int) -> str:
        """Name of the machine that contains a component; "" between machines."""
        return self.components.names.node(component)

    @cached_property
    def machine_numbers(self) -> NDArray[np.int64]:
        """Machine number of each component, shape (components,); -1 between machines."""
        return self.components.names.machines()

    @cached_property
    def _route_cache(self) -> dict[tuple[int, int], tuple[Route, ...]]:
        return {}

    @cached_property
    def _share_cache(self) -> dict[tuple[int, int], dict[int, float]]:
        return {}

    def routes(self, a: int, b: int) -> tuple[Route, ...]:
        """Routes from GPU ``a`` to GPU ``b``, at least one, with weights that add up to 1.

        Raises
        ------
        GraphError
            A route's weight is not above 0.

        Examples
        --------
        >>> wires = [Component(f"wire{i}", "link", rate=1e9) for i in range(2)]
        >>> gpus = [Component(f"gpu{i}", "gpu", slots=1) for i in range(2)]
        >>> system = System((*wires, *gpus), ("gpu0", "gpu1"),
        ...     router=lambda a, b: [Route((0,), 3), Route((1,), 1)])
        >>> system.routes(2, 3)
        (Route(components=(0,), weight=0.75), Route(components=(1,), weight=0.25))
        >>> system.with_pinned_routes({("gpu0", "gpu1"): 1}).routes(2, 3)
        (Route(components=(1,), weight=1.0),)
        """
        if (a, b) not in self._route_cache:
            self._route_cache[a, b] = (
                _normalised_routes(self.router(a, b)) if a != b else (Route(()),)
            )
        return self._route_cache[a, b]

    def route(self, a: int, b: int) -> tuple[int, ...]:
        """Rate components of the first route from GPU ``a`` to GPU ``b``, in order."""
        return self.routes(a, b)[0].components

    def crossing_fractions(self, a: int, b: int) -> Mapping[int, float]:
        """Fraction of the data from GPU ``a`` to GPU ``b`` that crosses each component."""
        if (a, b) in self._share_cache:
            return self._share_cache[a, b]
        if self._sprays:
            _, component, share = self.crossings(a, b)
            crossed: Iterable[tuple[int, float]] = list(
                zip(component.tolist(), share.tolist(), strict=True)
            )
        else:
            routes = self.routes(a, b)
            if len(routes) == 1:
                return dict.fromkeys(routes[0].components, 1.0)
            crossed = [(c, weight) for components, weight in routes for c in components]
        found: dict[int, float] = {}
        for c, part in crossed:
            found[c] = found.get(c, 0.0) + part
        self._share_cache[a, b] = found
        return found

    @cached_property
    def _flow_router(self) -> FlowRouter | None:
        """The router if it implements FlowRouter; cached, since the protocol check takes 80 us."""
        return self.router if isinstance(self.router, FlowRouter) else None

    @cached_property
    def _sprays(self) -> bool:
        """True if the routes of a pair are too many to list."""
        return self._flow_router is not None and self._flow_router.sprays

    def zero_byte_latencies(self, source: ArrayLike, target: ArrayLike) -> NDArray[np.float64]:
        """Time that a message of 0 bytes takes for each flow, in s: sum of latencies and overheads.

        If a flow has several routes, the longest counts, since the message is complete when all its
        parts are. NaN if there is no route.

        Examples
        --------
        >>> gpus = [Component(f"gpu{i}", "gpu", slots=1) for i in range(2)]
        >>> wire = Component("wire", "link", rate=1e9, latency=2.0, overhead=1.0)
        >>> system = System((*gpus, wire), ("gpu0", "gpu1"), router=lambda a, b: (2,))
        >>> system.zero_byte_latencies([0, 1], [1, 1]).tolist()
        [3.0, 0.0]
        """
        here, there = (np.atleast_1d(np.asarray(x, np.int64)) for x in (source, target))
        if self._flow_router is not None and (self._sprays or len(here) > FEW):
            return self._flow_router.highest_route_cost(here, there, self._delay_of_each)
        of = self.components
        pairs = zip(here.tolist(), there.tolist(), strict=True)
        ways = [[r.components for r in self.routes(*pair)] for pair in pairs]
        found = [max(sum(of[c].latency + of[c].overhead for c in w) for w in each) for each in ways]
        joined = [any(each) for each in ways]
        return np.where(np.array(joined, bool) | (here == there), np.array(found), np.nan)

    @cached_property
    def has_slots(self) -> NDArray[np.bool_]:
        """True for each component that has slots, shape (components,)."""
        return self.components.column(lambda part: part.slots is not None, bool)

    @cached_property
    def rate_units(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Index of each component's rate unit, shape (components,), and the units; "" for no rate.

        >>> parts = Component("gpu", "gpu", slots=1), Component("wire", "link", rate=1e9)
        >>> index, units = System(parts).rate_units
        >>> [units[i] for i in index.tolist()]
        ['', 'B']
        """
        units: dict[str, int] = {}

        def number_of(part: Component) -> int:
            return units.setdefault(part.unit if part.rate is not None else "", len(units))

        return self.components.column(number_of, np.int64), tuple(units)

    @cached_property
    def _delay_of_each(self) -> NDArray[np.float64]:
        return self.components.column(lambda part: part.latency + part.overhead, np.float64)

    def crossings(self, source: ArrayLike, target: ArrayLike, label: ArrayLike = 0) -> Crossings:
        """Components that flows cross, for many flows in one call.

        Parameters
        ----------
        source, target : (flows,) component numbers of GPUs or hosts
        label : distinguishes flows of one pair, if a hash chooses their route

        Examples
        --------
        >>> gpus = [Component(f"gpu{i}", "gpu", slots=1) for i in range(2)]
        >>> wire = Component("wire", "link", rate=1e9)
        >>> system = System((*gpus, wire), ("gpu0", "gpu1"), router=lambda a, b: (2,))
        >>> system.crossings([0, 1], [1, 0]).component.tolist()
        [2, 2]
        """
        here, there = (np.atleast_1d(np.asarray(x, np.int64)) for x in (source, target))
        if self._flow_router is not None:
            told = np.broadcast_to(np.asarray(label, np.int64), here.shape)
            return self._flow_router.crossings(here, there, told)
        rows = [
            (flow, c, share)
            for flow, pair in enumerate(zip(here.tolist(), there.tolist(), strict=True))
            for c, share in self.crossing_fractions(*pair).items()
        ]
        columns = np.array(rows, np.float64).reshape(-1, 3)
        return Crossings(
            columns[:, 0].astype(np.int64), columns[:, 1].astype(np.int64), columns[:, 2]
        )

    def loads(
        self, source: ArrayLike, target: ArrayLike, amount: ArrayLike
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Components, and the total amount that all flows together send over each.

        Examples
        --------
        >>> gpus = [Component(f"gpu{i}", "gpu", slots=1) for i in range(2)]
        >>> wire = Component("wire", "link", rate=1e9)
        >>> system = System((*gpus, wire), ("gpu0", "gpu1"), router=lambda a, b: (2,))
        >>> component, amount = system.loads([0, 1], [1, 0], [1.0, 2.0])
        >>> component.tolist(), amount.tolist()
        ([2], [3.0])
        """
        here, there = (np.atleast_1d(np.asarray(x, np.int64)) for x in (source, target))
        sent = np.broadcast_to(np.asarray(amount, np.float64), here.shape)
        if self._flow_router is not None and len(here) > FEW:
            return self._flow_router.loads(here, there, sent)
        found: dict[int, float] = {}
        for a, b, much in zip(here.tolist(), there.tolist(), sent.tolist(), strict=True):
            for c, share in self.crossing_fractions(a, b).items():
                found[c] = found.get(c, 0.0) + share * much
        return np.array(list(found), np.int64), np.array(list(found.values()))

    def exchange_loads(
        self, members: Sequence[int], amount: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Components and the amount over each if every member sends ``amount`` to every other one.

        None if the router cannot compute it without visiting every pair.
        """
        if not isinstance(self.router, ExchangeRouter):
            return None
        return self.router.exchange_loads(np.asarray(members, np.int64), amount)

    def with_pinned_routes(self, pins: Mapping[tuple[str, str], Pick]) -> System:
        """Copy of the system in which the data of some pairs of GPUs take only one route.

        Parameters
        ----------
        pins : by names of sender and receiver, the index of the route among ``routes``, or the
            names of the components that the data cross, in order

        Raises
        ------
        GraphError
            There is no such GPU, component or route.
        """
        return self.with_routes(self.pinned_routes(pins))

    def pinned_routes(self, pins: Mapping[tuple[str, str], Pick]) -> dict[tuple[int, int], Route]:
        """Chosen route of each pair, by component numbers; see :meth:`with_pinned_routes`."""
        found: dict[tuple[int, int], Route] = {}
        for (here, there), pick in pins.items():
            pair = self.number(here), self.number(there)
            if isinstance(pick, SupportsIndex):
                routes = self.routes(*pair)
                if not 0 <= int(pick) < len(routes):
                    raise GraphError(
                        "no route",
                        f"route {pick} from {here} to {there} does not exist; choose 0 to "
                        f"{len(routes) - 1}",
                    )
                found[pair] = routes[int(pick)]._replace(weight=1.0)
            else:
                found[pair] = Route(tuple(self.number(name) for name in pick))
        return found

    def with_routes(self, pinned: Mapping[tuple[int, int], Route]) -> System:
        """Copy of the system in which some pairs of components, by number, use another route."""

        def router(a: int, b: int) -> Sequence[Route]:
            return [pinned[a, b]] if (a, b) in pinned else self.routes(a, b)

        made = replace(self, router=router)
        vars(made).update({name: getattr(self, name) for name in WITHOUT_ROUTES})
        vars(made)["_flow_router"] = None
        return made

    def avoiding(self, components: Iterable[int]) -> System:
        """Copy of the system whose routes avoid some components.

        Raises
        ------
        GraphError
            No other route exists around a component; the message names it.
        """
        down, router = sorted(components), self.router
        avoidable = router.avoidable if isinstance(router, AvoidingRouter) else frozenset()
        for c in down:
            if c not in avoidable:
                raise GraphError(
                    "no route",
                    f"{self.components[c].name}: no other route exists, or its uplinks are "
                    f"modelled as "
                    "one pool; set routing: ecmp or spray to make each uplink a separate link",
                )
        if not down:
            return self
        assert isinstance(router, AvoidingRouter)  # noqa: S101  it can avoid them
        return replace(self, router=router.avoiding(down))

    def latency(self, a: int, b: int) -> Seconds:
        """Total latency of the longest route from GPU ``a`` to GPU ``b``."""
        if self._flow_router is not None and self._sprays:
            cost = self.components.column(lambda part: part.latency, np.float64)
            return float(
                self._flow_router.highest_route_cost(np.array([a]), np.array([b]), cost)[0]
            )
        return max(sum(self.components[c].latency for c in r.components) for r in self.routes(a, b))

    def bandwidth(self, a: int, b: int) -> float:
        """Highest rate from GPU ``a`` to GPU ``b`` over all routes; infinite if unlimited."""
        rates = {c: self.components[c].rate or 0.0 for c in self.crossing_fractions(a, b)}
        shares = self.crossing_fractions(a, b)
        return min((rate / shares[c] for c, rate in rates.items()), default=float("inf"))


def _normalised_routes(ways: Sequence[int] | Sequence[Route]) -> tuple[Route, ...]:
    """Routes that a router returned, with weights normalised to a sum of 1."""
    routes = [r for r in ways if isinstance(r, Route)]
    if not routes:
        return (Route(tuple(c for c in ways if not isinstance(c, Route))),)
    if len(routes) < len(ways):
        raise GraphError(
            "routes",
            f"a router returned component numbers and Route objects together ({ways}); return "
            f"one of the two",
        )
    if len(routes) == 1:
        return (routes[0]._replace(weight=1.0) if routes[0].weight != 1 else routes[0],)
    if not all(r.weight > 0 for r in routes):
        raise GraphError(
            "routes",
            f"the weights of the routes of a pair are {[r.weight for r in routes]}; give each a "
            "weight above 0",
        )
    total = math.fsum(r.weight for r in routes)
    return tuple(Route(tuple(r.components), r.weight / total) for r in routes)


SELECTED = "kind:"
DIGITS = re.compile(r"[0-9?\[]")  # glob characters that distinguish names by digits


def depends_on_digits(pattern: str) -> bool:
    """True if a glob may match one of two names that differ only in their digits.

    >>> [depends_on_digits(glob) for glob in ("node*.gpu*", "node1*.gpu*", "kind:store.nic0")]
    [False, True, False]
    """
    return not pattern.startswith(SELECTED) and DIGITS.search(pattern) is not None


def matches_pattern(pattern: str, component: Component, name: str = "") -> bool:
    """True if a glob matches a component: its name, its machine, or ``kind:`` and its pool.

    Parameters
    ----------
    name : name to match instead of the component's own, e.g. that of the part it belongs to

    Examples
    --------
    >>> nic = Component("node5.nic0.tx", "nic", rate=1.0, location=Location("node5", "store"))
    >>> patterns = ("kind:store.nic*", "kind:store", "node5.nic*", "kind:trainer")
    >>> [matches_pattern(pattern, nic) for pattern in patterns]
    [True, True, True, False]
    >>> matches_pattern("node5", nic), matches_pattern("node", nic)
    (True, False)
    """
    name = name or component.name
    if not pattern.startswith(SELECTED):
        return fnmatchcase(name, pattern) or pattern == component.node != ""
    pool, dot, below = pattern.removeprefix(SELECTED).partition(".")
    if not component.pool or component.pool != pool:
        return False
    return not dot or fnmatchcase(name.removeprefix(f"{component.node}."), below)
