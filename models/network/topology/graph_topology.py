"""Topologies defined by a switch graph, from which routes, loads and part counts follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import GraphError
from ....sim.facts.system import Component
from ..part.switch import Switch
from .next_links import NoRouteError
from .routing import SPRAY, Routing, count_paths
from .switch_graph import NIC, SwitchGraph
from .wiring import Adapter, FabricParts, Path, Topology

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
TRIED = 16  # switches from which paths are counted


class GraphTopology(Topology):
    """Base class of topologies defined by a switch graph. Subclasses implement ``graph``."""

    routing: Routing
    network: SwitchGraph

    def graph(self, adapters: Sequence[Adapter], switch: Switch | None) -> SwitchGraph:
        """Build the switch graph that connects these NICs.

        Raises
        ------
        GraphError
            The topology cannot connect these NICs.
        """
        raise TypeError(
            f"{type(self).__name__} has no graph(); write it to return the switch graph"
        )

    def components(self, adapters: Sequence[Adapter], switch: Switch | None) -> Iterable[Component]:
        """Components of the graph: ports and links."""
        self.network = self.graph(adapters, switch)
        self.network.check()
        self._require_paths()
        return self.network.components

    def _require_paths(self) -> None:
        """Raise an error if ``paths`` exceeds the number of paths between any two NICs."""
        if not self.routing.paths:
            return
        homes = np.unique(self.network.home)
        from_, to = np.repeat(homes[:TRIED], len(homes)), np.tile(homes, len(homes[:TRIED]))
        most = int(count_paths(self.network.next_links, from_, to).max(initial=1))
        if self.routing.paths > most:
            raise GraphError(
                "cluster.fabric.topology",
                f"paths is {self.routing.paths}, but at most {most} paths join two NICs; "
                f"give {most} or fewer, or leave it out for all",
            )

    def take_down(self, components: Iterable[int]) -> None:
        """Exclude some components from all routes, by their index in ``components``.

        Raises
        ------
        GraphError
            Some NICs are no longer connected.
        """
        self.network.take_down(components)
        self.network.check()

    @property
    def pooled_uplinks(self) -> tuple[Ints, Ints] | None:
        """Uplink pool and downlink pool of each leaf, two arrays of shape (switches,); -1 for none.

        None if the graph is not a set of leaves below one switch, or has only one leaf.
        """
        made = self.network
        source, target, component, *_ = made.columns
        up, down = np.full((2, len(made.names)), -1, np.int64)
        homes = np.flatnonzero(np.bincount(made.home, minlength=1))
        above = np.setdiff1d(np.concatenate([source, target]), homes)
        if len(above) > 1 or self.routing.paths_per_flow or made.is_cut:
            return None
        rises, falls = np.isin(target, above), np.isin(source, above)
        whole = len(homes) if len(above) else 0
        if not (rises.sum() == falls.sum() == whole and whole * 2 == len(source)):
            return None
        if whole and not (np.array_equal(np.unique(source[rises]), homes)
                          and np.array_equal(np.unique(target[falls]), homes)):  # fmt: skip
            return None
        if not whole and len(homes) > 1:
            return None
        up[source[rises]], down[target[falls]] = component[rises], component[falls]
        return up, down

    @property
    def avoidable(self) -> frozenset[int]:
        """Indices of the components that routing can avoid: the links between switches."""
        return frozenset(self.network.columns[2].tolist()) - {-1}

    def avoiding(self, components: Iterable[int]) -> Self:
        """Copy of the topology whose routes also avoid these components.

        Raises
        ------
        GraphError
            Some NICs are no longer connected.
        """
        found = copy(self)
        found.network = copy(self.network)
        found.take_down(components)
        return found

    def routes(self, a: Adapter, b: Adapter) -> Sequence[Path]:
        """Paths from one NIC to another, each with its share of the data."""
        here, there = self.network.number[a], self.network.number[b]
        return [
            Path(tuple(self.network.components[c].name for c in way), share)
            for way, share in self.paths_between(here, there, here, there)
        ]

    def paths_between(
        self, a: int, b: int, source: int, target: int
    ) -> list[tuple[list[int], float]]:
        """Components of each path between two NICs, and the path's share of the data.

        Parameters
        ----------
        a, b : indices of the NICs
        source, target : addresses used by the hash
        """
        made = self.network
        try:
            found = self.routing.paths_of_flow(
                made.next_links, int(made.home[a]), int(made.home[b]), source, target
            )
        except NoRouteError as error:
            raise made.no_route_error(error.at, error.to) from error
        component, port = made.columns[2], int(made.port[b])
        return [
            ([c for c in (*component[list(way)].tolist(), port) if c >= 0], share)
            for way, share in found.items()
        ]

    def crossings(
        self, a: Ints, b: Ints, source: Ints, target: Ints, label: Ints | int = 0
    ) -> tuple[Ints, Ints, Floats]:
        """Components that flows between NICs cross, as columns: flow, component, share of its data.

        Parameters
        ----------
        a, b : (flows,) indices of the NICs
        source, target : (flows,) addresses used by the hash
        label : (flows,) number that distinguishes flows of one pair
        """
        made = self.network
        try:
            crossed = self.routing.crossed(
                made.next_links, made.home[a], made.home[b], source, target, label
            )
        except NoRouteError as error:
            raise made.no_route_error(error.at, error.to) from error
        component = np.concatenate([made.columns[2][crossed.link], made.port[b]])
        flow = np.concatenate([crossed.flow, np.arange(len(b))])
        share = np.concatenate([crossed.share, np.ones(len(b))])
        there = component >= 0
        return flow[there], component[there], share[there]

    def loads(self, a: Ints, b: Ints, source: Ints, target: Ints, amount: Floats) -> Floats:
        """Total amount over each component for a set of flows, shape (components,)."""
        made = self.network
        try:
            link = self.routing.link_loads(
                made.next_links, made.home[a], made.home[b], source, target, amount
            )
        except NoRouteError as error:
            raise made.no_route_error(error.at, error.to) from error
        to_nic = np.bincount(b, amount, len(made.adapters)).astype(np.float64)
        return self._loads_of_components(link, to_nic)

    def _loads_of_components(self, link: Floats, to_nic: Floats) -> Floats:
        """Amount over each component, from amounts per link and per receiving NIC."""
        made = self.network
        loads = np.zeros(len(made.components) + 1)  # the last entry stands for links without cost
        np.add.at(loads, made.columns[2], link)
        np.add.at(loads, made.port, to_nic)
        return loads[:-1]

    @property
    def splits_over_all_paths(self) -> bool:
        """True if each switch splits all traffic evenly over its paths of equal cost."""
        return self.routing.choice == SPRAY and not self.routing.paths

    def exchange_loads(self, nic: Ints, a: Ints, b: Ints, amount: float) -> Floats:
        """Amount over each component, shape (components,), for an exchange between all members.

        Parameters
        ----------
        nic : (members,) NIC of each member; members may share a NIC
        a, b : (pairs,) NICs of pairs that exchange nothing; no member sends to itself
        amount : amount that every other pair exchanges
        """
        made, count = self.network, len(self.network.adapters)
        to_nic = np.bincount(nic, minlength=count) * (len(nic) - 1) - np.bincount(
            b, minlength=count
        )
        switches = np.unique(made.home[nic])
        own, here, there = (np.searchsorted(switches, made.home[x]) for x in (nic, a, b))
        try:
            link = self.routing.exchange_loads(
                made.next_links, switches, np.bincount(own), here, there
            )
        except NoRouteError as error:
            raise made.no_route_error(error.at, error.to) from error
        return self._loads_of_components(link, to_nic.astype(np.float64)) * amount

    def highest_route_cost(
        self, a: Ints, b: Ints, source: Ints, target: Ints, cost: Floats
    ) -> Floats:
        """Largest sum of component costs along any path of each flow, shape (flows,)."""
        made, cost = self.network, np.append(cost, 0.0)  # last entry: links without cost
        try:
            return cost[made.port[b]] + self.routing.highest_route_cost(
                made.next_links, made.home[a], made.home[b], source, target, cost[made.columns[2]]
            )
        except NoRouteError as error:
            raise made.no_route_error(error.at, error.to) from error

    @property
    def sprays(self) -> bool:
        """True if each pair uses so many paths that they should not be listed."""
        return not self.routing.paths_per_flow

    def parts(self) -> FabricParts:
        """Switches and cables of the network."""
        kinds = [k for k in dict.fromkeys(self.network.kinds) if k not in ("", NIC)]
        counts = {k: self.network.count(k) for k in kinds}
        return FabricParts(counts, self.network.cables(), self.network.joins())

    def switches(self) -> int:
        """Number of switches, for prices."""
        return sum(self.parts().switches.values())
