"""Routes between the GPUs and hosts of machines, for one pair or many flows at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import GraphError
from ....sim.facts.system import Crossings, Route
from ..part.pcie import DOWN, UP
from .graph_topology import GraphTopology
from .wiring import Adapter, Topology

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
DENSE = 8  # typical number of components per flow
Column = tuple[Ints, Ints, Floats]
"""Flow indices, one component for each, and the share of the flow's data on it."""
MOST_NEAR = 256  # with more nearby members on average, pairs are listed
CHUNK = 1 << 16  # flows per batch, so that the columns fit into the CPU cache


@dataclass(frozen=True)
class MachineLinks:
    """Links of GPUs and hosts, as component indices; -1 for none.

    Parameters
    ----------
    machine : (components,) machine of each component; -1 between machines
    domain : (components,) components with the same number share GPU links; -1 for none
    over_gpu, over_host : (components,) True if GPU links, or host links, connect it in its machine
    roles : (components,) component per role: ``tx``, ``rx``, ``d2h``, ``h2d``, ``to_nic``,
        ``from_nic``, and ``pcie_up``, ``pcie_down`` of the PCIe switch above it
    nic : (components,) index of the NIC that the component sends through
    nic_tx, nic_rx : (NICs,) components of the two directions of each NIC
    nic_up, nic_down : (NICs,) components of the PCIe switch above each NIC
    """

    machine: Ints
    domain: Ints
    over_gpu: NDArray[np.bool_]
    over_host: NDArray[np.bool_]
    roles: Mapping[str, Ints]
    nic: Ints
    nic_tx: Ints
    nic_rx: Ints
    nic_up: Ints
    nic_down: Ints


class MachineRouter:
    """Router over the links of machines, their NICs, and a topology between the NICs.

    Parameters
    ----------
    links : links of the machines
    adapters : NICs by index
    topology : topology that supplies the paths between NICs
    names : names of the topology's components, in order
    first : index of the first of these components

    Attributes
    ----------
    cut_off : (components,) True in a machine without a NIC, if there are several machines
    domain : (components,) number of the machines whose GPU links meet; -1 between machines
    """

    def __init__(
        self,
        links: MachineLinks,
        adapters: Sequence[Adapter],
        topology: Topology,
        names: Sequence[str],
        first: int,
    ):
        self.links, self.adapters, self.topology = links, adapters, topology
        several = links.machine.max(initial=-1) > 0
        self.cut_off = (links.nic < 0) & (links.machine >= 0) & several
        self._some_cut_off = bool(self.cut_off.any())
        self.domain = links.domain
        self._numbers = {name: first + i for i, name in enumerate(names)}

    def __call__(self, a: int, b: int) -> Sequence[Route]:
        """Routes from one GPU or host to another."""
        of, roles = self.links, self.links.roles
        if of.over_gpu[a] and of.domain[a] == of.domain[b]:
            ends = int(roles["tx"][a]), int(roles["rx"][b])
            if min(ends) >= 0:
                return [Route(ends)]
        if of.over_host[a] and of.machine[a] == of.machine[b]:
            over = _over_pcie(roles[UP][a], roles[UP][b], roles[DOWN][b])
            return [Route(_present_components(roles["d2h"][a], *over, roles["h2d"][b]))]
        here, there = int(of.nic[a]), int(of.nic[b])
        if here < 0 or there < 0:
            if of.machine[a] != of.machine[b]:
                self._refuse_without_nic(a if here < 0 else b)
            return ()
        leaves = _over_pcie(roles[UP][a], of.nic_up[here], of.nic_down[here])
        enters = _over_pcie(of.nic_up[there], roles[UP][b], roles[DOWN][b])
        out = _present_components(roles["to_nic"][a], *leaves, of.nic_tx[here])
        into = _present_components(of.nic_rx[there], *enters, roles["from_nic"][b])
        ways = self._paths_between(here, there, a, b)
        return [Route((*out, *between, *into), share) for between, share in ways]

    def _refuse_without_nic(self, component: int) -> NoReturn:
        """Raise an error for data that would have to leave or enter a machine without a NIC."""
        raise GraphError(
            "cluster",
            f"node{self.links.machine[component]} has no NIC, so no data can travel between it and "
            "other machines; write a nic for its kind of machine",
        )

    def _paths_between(
        self, here: int, there: int, a: int, b: int
    ) -> Iterator[tuple[list[int], float]]:
        """Components of each path between two NICs, and its share of the data from a to b."""
        for names, weight in self.topology.routes(self.adapters[here], self.adapters[there]):
            for name in names:
                if name not in self._numbers:
                    raise GraphError(
                        "cluster",
                        f"topology {self.topology.registered_name!r} sends data over {name!r}, "
                        "which its components() did not make; add it there",
                    )
            yield [self._numbers[name] for name in names], weight


class GraphRouter(MachineRouter):
    """Router over a topology defined by a graph; computes the routes of many flows at once."""

    def __init__(
        self,
        links: MachineLinks,
        adapters: Sequence[Adapter],
        topology: GraphTopology,
        count: int,
        first: int,
    ):
        super().__init__(links, adapters, topology, (), first)
        self.graph, self.first, self.count = topology, first, first + count
        sends, hears = (links.roles[way] >= 0 for way in ("tx", "rx"))
        self._sends_to = np.where(links.over_gpu & sends, links.domain, -1)
        self._hears_from = np.where(hears, links.domain, -2)
        self.sprays = topology.sprays
        self._has_pcie = bool((links.roles[UP] >= 0).any())
        self._host_of = np.where(links.over_host, links.machine, -2)

    @cached_property
    def avoidable(self) -> frozenset[int]:
        """Components that routing can avoid: the individual links of the topology."""
        return frozenset(c + self.first for c in self.graph.avoidable)

    def avoiding(self, components: Iterable[int]) -> GraphRouter:
        """Copy of the router whose routes also avoid these components.

        Raises
        ------
        GraphError
            Some NICs are no longer connected.
        """
        found = copy(self)
        found.graph = found.topology = self.graph.avoiding(c - self.first for c in components)
        return found

    def ends(self, gpus: Ints) -> Ints:
        """Components at both ends of each GPU's paths, before and after the fabric; -1 for none.

        The shape is (…, parts). With ``has_pooled_uplinks`` the pools of the leaf are included, so
        that a path consists of the ends of both GPUs.
        """
        of, nic = self.links, self.links.nic[gpus]
        behind = (of.nic_tx, of.nic_rx, of.nic_up, of.nic_down, *self._fabric_ends)
        return np.stack(
            [*(role[gpus] for role in of.roles.values())]
            + [np.where(nic >= 0, part[nic], -1) if len(part) else nic for part in behind],
            axis=-1,
        )

    @property
    def ends_in_machine(self) -> int:
        """Number of columns of ``ends`` for components in the GPU's machine; they come first."""
        return len(self.links.roles) + 4

    def locations(self, gpus: Ints) -> list[Ints]:
        """Machine, GPU-link domain, NIC and leaf of each GPU, each an array of shape (…,)."""
        of = self.links
        return [of.machine[gpus], of.domain[gpus], of.nic[gpus], self._leaf(gpus)]

    def local_link_kinds(self, gpus: Ints) -> Ints:
        """Kind of links from each GPU to others in its machine.

        0 for none, 1 for GPU links, 2 for host links, 3 for both.
        """
        return self.links.over_gpu[gpus] + 2 * self.links.over_host[gpus]

    def spans_leaves(self, groups: Ints) -> NDArray[np.bool_]:
        """Mask of groups whose members are on several leaves, shape (groups,)."""
        leaf = self._leaf(groups)
        return np.asarray((leaf != leaf[:, :1]).any(axis=1))

    @property
    def has_pooled_uplinks(self) -> bool:
        """True if a path between leaves is one uplink pool and one downlink pool."""
        return self.graph.pooled_uplinks is not None

    def _leaf(self, gpus: Ints) -> Ints:
        nic = self.links.nic[gpus]
        home = self.graph.network.home
        return np.where(nic >= 0, home[nic], -1) if len(home) else nic

    @property
    def _fabric_ends(self) -> list[Ints]:
        """Port to each NIC; with pooled uplinks, also the uplink and downlink pool of its leaf."""
        made, own = self.graph.network, self.graph.pooled_uplinks
        links = [] if own is None else [own[0][made.home], own[1][made.home]]
        return [np.where(c >= 0, c + self.first, -1) for c in (made.port, *links)]

    def take_down(self, components: Sequence[int]) -> None:
        """Exclude components from all routes, including those of the topology.

        Raises
        ------
        GraphError
            Some NICs are no longer connected.
        """
        self.graph.take_down(c - self.first for c in components if self.first <= c < self.count)

    def _paths_between(
        self, here: int, there: int, a: int, b: int
    ) -> Iterator[tuple[list[int], float]]:
        for way, share in self.graph.paths_between(here, there, a, b):
            yield [c + self.first for c in way], share

    def crossings(self, source: Ints, target: Ints, label: Ints) -> Crossings:
        """Components that flows cross; see :meth:`System.crossings`."""
        none = np.zeros(0, np.int64)
        found = [(none, none, np.zeros(0))]
        for at in range(0, len(source), CHUNK):
            some = slice(at, at + CHUNK)
            for flow, component, share in self._columns(source[some], target[some], label[some]):
                found.append((flow + at, component, share))
        return Crossings(*map(np.concatenate, zip(*found, strict=True)))

    def loads(self, source: Ints, target: Ints, amount: Floats) -> tuple[Ints, Floats]:
        """Components and the total amount over each; see :meth:`System.loads`."""
        if DENSE * len(source) < self.count:
            flow, crossed, share = self.crossings(source, target, np.zeros_like(source))
            component, where = np.unique(crossed, return_inverse=True)
            return component, np.bincount(where, share * amount[flow]).astype(np.float64)
        found = np.zeros(self.count)
        for at in range(0, len(source), CHUNK):
            some = slice(at, at + CHUNK)
            self._add_loads(found, source[some], target[some], amount[some])
        component = np.flatnonzero(found)
        return component, found[component]

    def _add_loads(self, found: Floats, a: Ints, b: Ints, amount: Floats) -> None:
        """Add the amounts of some flows to the load of every component."""
        for out, into, far in self._ends_of_flows(a, b):
            sent = amount[far]
            for flow, component, _ in (*out, *into):
                carried = sent if flow is far else amount[flow]
                found += np.bincount(component, carried, self.count)
            here, there = self.links.nic[a[far]], self.links.nic[b[far]]
            found[self.first :] += self.graph.loads(here, there, a[far], b[far], sent)

    def exchange_loads(self, members: Ints, amount: float) -> tuple[Ints, Floats] | None:
        """Amount over each component in an all-to-all exchange; see :meth:`System.exchange_loads`.

        Only pairs in one machine are listed. The load of the other pairs follows from what each
        member sends and receives, and from the number of pairs between any two switches.
        """
        of = self.links
        if not self.graph.splits_over_all_paths:
            return None
        if self._some_cut_off:
            return None
        near = self._near_pairs(members)
        if len(near[0]) > MOST_NEAR * len(members):
            return None
        found = np.zeros(self.count)
        for at in range(0, len(near[0]), CHUNK):
            a, b = (members[x[at : at + CHUNK]] for x in near)
            self._add_loads(found, a, b, np.full(len(a), amount))
        joined = of.nic[members] >= 0
        a, b = (x[joined[near[0]] & joined[near[1]]] for x in near)
        flow, who = np.arange(int(joined.sum())), members[joined]
        for ends, columns in ((a, self._out_to_nic), (b, self._in_from_nic)):
            far = len(who) - 1 - np.bincount(ends, minlength=len(members))[joined]
            for some, component, _ in columns(flow, who):
                found += np.bincount(component, amount * far[some], self.count)
        here, there = of.nic[members[a]], of.nic[members[b]]
        found[self.first :] += self.graph.exchange_loads(of.nic[who], here, there, amount)
        component = np.flatnonzero(found)
        return component, found[component]

    def _near_pairs(self, members: Ints) -> tuple[Ints, Ints]:
        """Indices of every two members whose traffic does not cross the fabric, both ways."""
        machine = self.links.machine[members]
        ways = (
            (self._sends_to[members], self._hears_from[members]),
            (self._host_of[members], machine),
        )
        found = [_equal_pairs(*ends) for ends in ways]
        a, b = map(np.concatenate, zip(*found, strict=True))
        pair = np.unique(a * len(members) + b)
        a, b = np.divmod(pair, len(members))
        return a[a != b], b[a != b]

    def highest_route_cost(self, source: Ints, target: Ints, cost: Floats) -> Floats:
        """Cost of the longest path of each flow, shape (flows,); see :meth:`System.delays`."""
        found = np.where(source == target, 0.0, np.nan)
        for out, into, far in self._ends_of_flows(source, target):
            for flow in (far, *(flow for flow, _, _ in out)):
                found[flow] = 0.0
            for flow, component, _ in out:
                found[flow] += cost[component]
            if len(far):
                a, b, within = source[far], target[far], cost[self.first : self.count]
                here, there = self.links.nic[a], self.links.nic[b]
                found[far] += self.graph.highest_route_cost(here, there, a, b, within)
            for flow, component, _ in into:
                found[flow] += cost[component]
        return found

    def _columns(self, a: Ints, b: Ints, label: Ints) -> Iterator[Column]:
        """Components that flows cross, as columns in the order of the path."""
        for out, into, far in self._ends_of_flows(a, b):
            yield from out
            flow, component, share = self.graph.crossings(
                self.links.nic[a[far]], self.links.nic[b[far]], a[far], b[far], label[far]
            )
            yield far[flow], component + self.first, share
            yield from into

    def _ends_of_flows(self, a: Ints, b: Ints) -> Iterator[tuple[list[Column], list[Column], Ints]]:
        """Columns before and after the fabric, and the indices of flows that cross it."""
        of, roles = self.links, self.links.roles
        near = self._sends_to[a] == self._hears_from[b]
        host = (self._host_of[a] == of.machine[b]) & ~near
        apart = a != b
        far = np.flatnonzero(~(near | host) & (of.nic[a] >= 0) & (of.nic[b] >= 0) & apart)
        if self._some_cut_off:
            self._refuse_cut_off(a, b, ~(near | host))
        if near.any():
            flow = np.flatnonzero(near & apart)
            yield _present(flow, roles["tx"][a[flow]], roles["rx"][b[flow]]), [], flow[:0]
        if host.any():
            flow = np.flatnonzero(host & apart)
            x, y = a[flow], b[flow]
            over = _over_pcie(roles[UP][x], roles[UP][y], roles[DOWN][y])
            yield _present(flow, roles["d2h"][x], *over, roles["h2d"][y]), [], flow[:0]
        if len(far):
            yield self._out_to_nic(far, a[far]), self._in_from_nic(far, b[far]), far

    def _refuse_cut_off(self, a: Ints, b: Ints, over_nics: NDArray[np.bool_]) -> None:
        """Raise an error if a flow needs the NIC of a machine that has none."""
        machine = self.links.machine
        lost = over_nics & (machine[a] != machine[b]) & (self.cut_off[a] | self.cut_off[b])
        if lost.any():
            flow = int(np.argmax(lost))
            self._refuse_without_nic(int(a[flow] if self.cut_off[a[flow]] else b[flow]))

    def _out_to_nic(self, flow: Ints, a: Ints) -> list[Column]:
        """Columns of flows from GPUs or hosts out through their NICs."""
        of, roles = self.links, self.links.roles
        nic, leaves = of.nic[a], []
        if self._has_pcie:
            leaves = _over_pcie(roles[UP][a], of.nic_up[nic], of.nic_down[nic])
        return _present(flow, roles["to_nic"][a], *leaves, of.nic_tx[nic])

    def _in_from_nic(self, flow: Ints, b: Ints) -> list[Column]:
        """Columns of flows in through NICs and on to GPUs or hosts."""
        of, roles = self.links, self.links.roles
        nic, enters = of.nic[b], []
        if self._has_pcie:
            enters = _over_pcie(of.nic_up[nic], roles[UP][b], roles[DOWN][b])
        return _present(flow, of.nic_rx[nic], *enters, roles["from_nic"][b])


def _equal_pairs(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """All index pairs (i, j) with ``a[i] == b[j]``, both non-negative.

    >>> [x.tolist() for x in _equal_pairs(np.array([5, -1, 7]), np.array([7, 5, 5]))]
    [[0, 0, 2], [1, 2, 0]]
    """
    order = np.argsort(b, kind="stable")
    first, end = (np.searchsorted(b[order], a, side) for side in ("left", "right"))
    count = np.where(a >= 0, end - first, 0)
    place = np.repeat(np.arange(len(a)), count)
    within = np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count)
    return place, order[first[place] + within]


def _over_pcie(up: Any, other: Any, down: Any) -> list[Any]:
    """PCIe links on the path between two devices: up from one switch, down to the other.

    Both are -1 if the devices share a switch.

    Parameters
    ----------
    up, other : uplink to the host of each of the two switches; -1 for none
    down : downlink from the host to the second switch
    """
    apart = up != other
    return [np.where(apart, up, -1), np.where(apart, down, -1)]


def _present_components(*components: int) -> tuple[int, ...]:
    return tuple(int(c) for c in components if c >= 0)


def _present(flow: Ints, *components: Ints) -> list[Column]:
    """Columns of flows that send all data over a component, without absent components."""
    found = []
    for component in components:
        there = component >= 0
        if there.all():
            found.append((flow, component, np.broadcast_to(1.0, len(flow))))
        elif there.any():
            some = flow[there]
            found.append((some, component[there], np.broadcast_to(1.0, len(some))))
    return found
