"""A network as data: switches, links one by one, NICs that hang on switches, and who leads where.

Every direction of a link is one row.  Data go the ways of least cost; where several cost the same,
who sends chooses among them (``routing.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ....sim.errors import GraphError
from ....sim.facts.component_list import ComponentList
from ....sim.facts.system import Component
from .next_links import CostTables, NextLinks
from .wiring import Adapter, Cables

Ints = NDArray[np.int64]
NIC = "NIC"  # kind of a NIC with several links, which is a switch in the graph


class SwitchGraph:
    """Switches, the links between them, and where each NIC hangs; filled in bulk.

    Parameters
    ----------
    adapters : NICs, in order

    Examples
    --------
    >>> graph = SwitchGraph([Adapter(0, 0), Adapter(1, 0)])
    >>> left, right = graph.add_switches("leaf", 2)
    >>> _ = graph.add_cables([left], [right], Component("", "switch", rate=1e9))
    >>> graph.attach_nics([0, 1], [left, right])
    >>> [c.name for c in graph.components]
    ['leaf0.leaf1', 'leaf1.leaf0']
    >>> graph.next_links.candidates(np.array([left]), np.array([right])).length.tolist()
    [1]
    """

    def __init__(self, adapters: Sequence[Adapter]):
        self.adapters = adapters
        self._blocks: list[ComponentList] = []
        self._known: ComponentList | None = None
        self._count = 0
        self.names: list[str] = []
        self.kinds: list[str] = []
        self.home = np.full(len(self.adapters), -1, np.int64)
        self.port = np.full(len(self.adapters), -1, np.int64)
        self.ends: set[int] = set()  # switches that do not forward: NICs with several links
        self.levels: NextLinks | None = None
        self._rows: list[tuple[Ints, ...]] = []
        self._columns: tuple[Ints, ...] | None = None
        self._next: NextLinks | None = None
        self._down: frozenset[int] = frozenset()

    # Construction.

    def add_switches(self, kind: str, names: int | Iterable[str]) -> range:
        """Add switches of a kind, ``leaf`` or ``spine``: so many, or of these names."""
        told = [f"{kind}{i}" for i in range(names)] if isinstance(names, int) else list(names)
        first = len(self.names)
        self.names += told
        self.kinds += [kind] * len(told)
        return range(first, len(self.names))

    def add_components(self, made: Iterable[Component]) -> int:
        """Add components, and say the number of the first."""
        first, block = self._count, ComponentList.of(made)
        self._blocks.append(block)
        self._count, self._known = first + len(block), None
        return first

    @property
    def components(self) -> ComponentList:
        """Ports and links, by number."""
        if self._known is None:
            self._known = ComponentList.concatenate(self._blocks)
        return self._known

    @cached_property
    def number(self) -> dict[Adapter, int]:
        """Number of each NIC."""
        return {a: i for i, a in enumerate(self.adapters)}

    def add_links(
        self, source: ArrayLike, target: ArrayLike, component: ArrayLike,
        cost: ArrayLike = 1, turn: ArrayLike = 0, weight: ArrayLike = 1,
    ) -> None:  # fmt: skip
        """Add directions of links.

        Parameters
        ----------
        source, target : (links,) switches by number
        component : (links,) what each is, by number; -1 for what costs nothing
        cost : what crossing it adds to a way
        turn : of equally short ways those whose next link has the least turn: dimensions in order
        weight : share of flows beside others of equal cost, where flows are weighted
        """
        columns = np.broadcast_arrays(source, target, component, cost, turn, weight)
        self._rows.append(tuple(np.atleast_1d(c).astype(np.int64) for c in columns))
        self._columns = self._next = None

    def add_cables(
        self,
        a: ArrayLike,
        b: ArrayLike,
        port: Component,
        roles: tuple[str, str] = ("", ""),
        *,
        one_way: bool = False,
        cost: int = 1,
        turn: int = 0,
        weight: int = 1,
    ) -> range:
        """Add cables, each two links that are like ``port``; those beside each other are numbered.

        Parameters
        ----------
        a, b : (cables,) switches by number
        roles : of the links from a to b, and from b to a
        one_way : only from a to b

        Returns
        -------
        range
            Of their components.
        """
        ends = [np.atleast_1d(np.asarray(x, np.int64)) for x in (a, b)]
        place, among = _places_among_equals(np.minimum(*ends) * len(self.names) + np.maximum(*ends))
        first = self._count
        for way, role in list(zip((1, -1), roles, strict=True))[: 1 if one_way else 2]:
            source, target = ends[::way]
            names = [
                f"{self.names[x]}.{self.names[y]}" + (f".{k}" if many > 1 else "")
                for x, y, k, many in np.stack([source, target, place, among]).T.tolist()
            ]
            made = self.add_components(port.renamed(name, role=role) for name in names)
            self.add_links(source, target, made + np.arange(len(names)), cost, turn, weight)
        return range(first, self._count)

    def attach_nics(
        self, adapters: Sequence[int] | Ints, switches: Sequence[int] | Ints | int,
        ports: Ints | int = -1,
    ) -> None:  # fmt: skip
        """Say on which switch NICs hang, and by which component it sends to each; -1 for none."""
        self.home[adapters] = switches
        self.port[adapters] = ports

    # Queries.

    @property
    def columns(self) -> tuple[Ints, ...]:
        """(links,) each of ``add_links``, in its order of parameters."""
        if self._columns is None:
            rows = self._rows or [tuple(np.zeros(0, np.int64) for _ in range(6))]
            self._columns = tuple(map(np.concatenate, zip(*rows, strict=True)))
        return self._columns

    @property
    def next_links(self) -> NextLinks:
        """Who leads where; of switches in levels by arithmetic, unless links are down."""
        if self._next is None:
            if self.levels is not None and not self._down:
                self._next = self.levels
            else:
                source, target, component, cost, turn, weight = self.columns
                up = ~np.isin(component, list(self._down))
                forwards = np.ones(len(self.names), bool)
                forwards[list(self.ends)] = False
                self._next = CostTables(
                    source, target, cost, turn, weight, up, forwards, np.unique(self.home)
                )
        return self._next

    def take_down(self, components: Iterable[int]) -> None:
        """Leave links of these components out of all ways, as routing protocols do."""
        self._down |= frozenset(components)
        self._next = None

    @property
    def is_cut(self) -> bool:
        """Whether links of it are down."""
        return bool(self._down)

    def check(self) -> None:
        """Refuse NICs that hang nowhere, and NICs that nothing joins.

        Raises
        ------
        GraphError
            Names two NICs, and what may be mended.
        """
        if (self.home < 0).any():
            lost = self.adapters[int(np.argmax(self.home < 0))]
            raise GraphError(
                "cluster.fabric.topology", f"{lost.name} has no link; add a link to it"
            )
        if not len(self.adapters):
            return
        source, target, component, *_ = self.columns
        up = ~np.isin(component, list(self._down))
        for ends in ((source[up], target[up]), (target[up], source[up])):  # from it, and to it
            apart = np.flatnonzero(~self._reached(int(self.home[0]), *ends)[self.home])
            if len(apart):
                raise self.no_route_error(int(self.home[0]), int(self.home[apart[0]]))

    def _reached(self, start: int, source: Ints, target: Ints) -> NDArray[np.bool_]:
        """(switches,) whether links lead there from one of them."""
        reached = np.zeros(len(self.names), bool)
        reached[start] = True
        count = 0
        while count < (count := int(reached.sum())):
            reached[target[reached[source]]] = True
        return reached

    def no_route_error(self, at: int, to: int) -> GraphError:
        """Error of two switches that nothing joins."""
        down = ", ".join(self.components[c].name for c in sorted(self._down)[:6])
        why = (
            f"these links are down: {down}; bring one up" if down else "add a link that joins them"
        )
        here, there = self.names_at(at), self.names_at(to)
        return GraphError("cluster.fabric", f"no route leads from {here} to {there}; {why}")

    def names_at(self, switch: int) -> str:
        """Name of a NIC that hangs on a switch, or else the switch's own."""
        there = np.flatnonzero(self.home == switch)
        return self.adapters[int(there[0])].name if len(there) else self.names[switch]

    def count(self, kind: str) -> int:
        """Number of switches of a kind."""
        return self.kinds.count(kind)

    def cables(self) -> list[Cables]:
        """Cables by the kinds of their ends; two directions are one cable."""
        found: dict[tuple[str, str], int] = {}
        kinds = list(dict.fromkeys(self.kinds))
        of = np.array([kinds.index(k) for k in self.kinds], np.int64)
        if len(self.adapters) and self.port.max() >= 0:
            homes = np.bincount(of[self.home], minlength=len(kinds)).tolist()
            found |= {(NIC, k): n for k, n in zip(kinds, homes, strict=True) if n}
        source, target = of[self.columns[0]], of[self.columns[1]]
        pairs, counts = np.unique(
            np.minimum(source, target) * len(kinds) + np.maximum(source, target), return_counts=True
        )
        for pair, many in zip(pairs.tolist(), counts.tolist(), strict=True):
            found[kinds[pair // len(kinds)], kinds[pair % len(kinds)]] = (many + 1) // 2
        return [Cables(*ends, n) for ends, n in found.items()]

    def joins(self) -> list[tuple[str, str, int]]:
        """Names of each two switches that are joined, and the number of cables; not of NICs."""
        source, target = self.columns[:2]
        real = np.array([kind not in ("", NIC) for kind in self.kinds])
        ours = real[source] & real[target]
        low, high = np.minimum(source, target)[ours], np.maximum(source, target)[ours]
        pairs, links = np.unique(low * len(self.names) + high, return_counts=True)
        return [
            (self.names[pair // len(self.names)], self.names[pair % len(self.names)], (n + 1) // 2)
            for pair, n in zip(pairs.tolist(), links.tolist(), strict=True)
        ]


def _places_among_equals(key: Ints) -> tuple[Ints, Ints]:
    """Of each key its place among those that are equal, and their number."""
    order = np.argsort(key, kind="stable")
    _, first, which, many = np.unique(
        key[order], return_index=True, return_inverse=True, return_counts=True
    )
    place = np.empty(len(key), np.int64)
    place[order] = np.arange(len(key)) - first[which]
    among = np.empty(len(key), np.int64)
    among[order] = many[which]
    return place, among
