"""Switch graph: switches, links, NICs attached to switches, and next-link lookup.

Every direction of a link is one row. Traffic takes least-cost paths; the routing rule chooses
between paths of equal cost (``routing.py``).
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
    """Switches, the links between them, and the switch of each NIC; filled in bulk.

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
        """Add switches of one kind, such as ``leaf``: a number of them, or one per given name."""
        told = [f"{kind}{i}" for i in range(names)] if isinstance(names, int) else list(names)
        first = len(self.names)
        self.names += told
        self.kinds += [kind] * len(told)
        return range(first, len(self.names))

    def add_components(self, made: Iterable[Component]) -> int:
        """Add components and return the index of the first one."""
        first, block = self._count, ComponentList.of(made)
        self._blocks.append(block)
        self._count, self._known = first + len(block), None
        return first

    @property
    def components(self) -> ComponentList:
        """Ports and links, by index."""
        if self._known is None:
            self._known = ComponentList.concatenate(self._blocks)
        return self._known

    @cached_property
    def number(self) -> dict[Adapter, int]:
        """Index of each NIC."""
        return {a: i for i, a in enumerate(self.adapters)}

    def add_links(
        self, source: ArrayLike, target: ArrayLike, component: ArrayLike,
        cost: ArrayLike = 1, turn: ArrayLike = 0, weight: ArrayLike = 1,
    ) -> None:  # fmt: skip
        """Add directed links.

        Parameters
        ----------
        source, target : (links,) switch indices
        component : (links,) component index of each link; -1 for a link without cost
        cost : routing cost of the link
        turn : tie-breaker: among paths of equal cost, the one whose next link has the lowest turn
            is used (dimension order)
        weight : share of the flows relative to other links of equal cost, under ``weighted``
            routing
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
        """Add cables, each with two directed links like ``port``; parallel cables are numbered.

        Parameters
        ----------
        a, b : (cables,) switch indices
        roles : roles of the links from a to b, and from b to a
        one_way : True for links from a to b only

        Returns
        -------
        range
            Indices of the new components.
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
            like = port.renamed(port.name, role=role)
            made = self.add_components(like.renamed(name) for name in names)
            self.add_links(source, target, made + np.arange(len(names)), cost, turn, weight)
        return range(first, self._count)

    def attach_nics(
        self, adapters: Sequence[int] | Ints, switches: Sequence[int] | Ints | int,
        ports: Ints | int = -1,
    ) -> None:  # fmt: skip
        """Attach NICs to switches; ``ports`` are the components to each NIC, -1 for none."""
        self.home[adapters] = switches
        self.port[adapters] = ports

    # Queries.

    @property
    def columns(self) -> tuple[Ints, ...]:
        """Link columns, each of shape (links,), in the order of the parameters of ``add_links``."""
        if self._columns is None:
            rows = self._rows or [tuple(np.zeros(0, np.int64) for _ in range(6))]
            self._columns = tuple(map(np.concatenate, zip(*rows, strict=True)))
        return self._columns

    @property
    def next_links(self) -> NextLinks:
        """Lookup of next links; arithmetic for a tree of switches without failed links."""
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
        """Exclude the links of these components from all paths, as routing protocols do."""
        self._down |= frozenset(components)
        self._next = None

    @property
    def is_cut(self) -> bool:
        """True if links are down."""
        return bool(self._down)

    def check(self) -> None:
        """Raise an error if a NIC has no switch, or if two NICs are not connected.

        Raises
        ------
        GraphError
            A NIC is not connected; the message names the NICs, and what to change.
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
        """Mask of the switches that links reach from switch ``start``, shape (switches,)."""
        reached = np.zeros(len(self.names), bool)
        reached[start] = True
        count = 0
        while count < (count := int(reached.sum())):
            reached[target[reached[source]]] = True
        return reached

    def no_route_error(self, at: int, to: int) -> GraphError:
        """Error for two switches without a route between them."""
        down = ", ".join(self.components[c].name for c in sorted(self._down)[:6])
        why = (
            f"these links are down: {down}; bring one up" if down else "add a link that joins them"
        )
        here, there = self.names_at(at), self.names_at(to)
        return GraphError("cluster.fabric", f"no route leads from {here} to {there}; {why}")

    def names_at(self, switch: int) -> str:
        """Name of the first NIC on a switch, or of the switch if it has no NIC."""
        there = np.flatnonzero(self.home == switch)
        return self.adapters[int(there[0])].name if len(there) else self.names[switch]

    def count(self, kind: str) -> int:
        """Number of switches of a kind."""
        return self.kinds.count(kind)

    def cables(self) -> list[Cables]:
        """Number of cables between each two kinds of ends; two directions are one cable."""
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
        """Names of every two connected switches, and their number of cables; NICs are left out."""
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
    """Position of each key among its equal keys, and the number of equal keys."""
    order = np.argsort(key, kind="stable")
    _, first, which, many = np.unique(
        key[order], return_index=True, return_inverse=True, return_counts=True
    )
    place = np.empty(len(key), np.int64)
    place[order] = np.arange(len(key)) - first[which]
    among = np.empty(len(key), np.int64)
    among[order] = many[which]
    return place, among
