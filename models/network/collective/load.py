"""Load of an algorithm on a system: its latency, and its bytes on every link."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import BackendError
from ....sim.facts.system import Component, Route, System
from ....sim.units import Seconds
from .steps import SWITCH, Algorithm, Step

Members = tuple[int, ...]  # GPUs, as component numbers, in group order

SEND = Algorithm("send", "send", lambda n: [Step(np.array([0]), np.array([1]), 1)], pipelined=True)
"""A message, as an algorithm of two members."""


class LoadedParts(NamedTuple):
    """Components that carry a collective; each field is an array of shape (parts,).

    Parameters
    ----------
    component : component indices
    share : bytes that cross each component, per byte of the collective
    rate : rate in B/s; infinite for components that take no time
    wire : True for links between machines, and between a GPU and a NIC
    """

    component: NDArray[np.int32]
    share: NDArray[np.float64]
    rate: NDArray[np.float64]
    wire: NDArray[np.bool_]

    @classmethod
    def of(cls, uses: Mapping[int, float], system: System) -> LoadedParts:
        """Build from the bytes on each component per byte of the collective.

        Components without a rate are left out.
        """
        used, of = np.fromiter(uses, np.int32, len(uses)), system.components
        return cls(
            used,
            np.fromiter(uses.values(), float, len(uses)),
            of.column_of(used, lambda part: part.rate or 0.0, float),
            of.column_of(used, _is_wire, bool),
        )

    def stretch(self, link: float, wire: float) -> NDArray[np.float64]:
        """Bytes on each component per byte of the collective, shape (parts,), with overhead."""
        return self.share * np.where(self.wire, wire, link)

    def seconds_per_byte(self, link: float = 1.0, wire: float = 1.0) -> float:
        """Seconds per byte of the collective, set by the busiest component.

        Parameters
        ----------
        link, wire : bytes that one payload byte occupies on a link, and on a wire between machines

        Examples
        --------
        >>> from .algorithms import ALGORITHMS
        >>> from ..part.link import Link
        >>> from ..part.switch import Switch, star
        >>> board = Link(bandwidth=1e9, latency=1e-6)
        >>> system = star(4, board, Switch(bandwidth=1e9, latency=0, ports=4))
        >>> ring = ALGORITHMS["all-reduce"]["ring"]
        >>> compute_load(ring, (0, 1, 2, 3), system).parts.seconds_per_byte()
        1.5e-09
        """
        with np.errstate(divide="ignore"):
            return float(np.max(self.stretch(link, wire) / self.rate, initial=0.0))


@dataclass(frozen=True)
class AlgorithmLoad:
    """Load of one algorithm on a group of GPUs.

    Parameters
    ----------
    members, steps, network_steps : int
        Number of members, of dependent steps, and of those steps that cross machines.
    latency : Seconds
        Sum of the latencies of all steps, without protocol costs.
    uses : bytes that cross each component, per byte of the collective
    parts : the loads of ``uses`` as arrays, with the properties of the components
    limit : largest rate of the collective in B/s that limits of single senders allow; infinite if
        none
    nodes : int
        Number of machines.
    pair_share : largest number of bytes from one member to another, per byte of the collective
    network_share : size of the largest message between two machines, per byte of the collective
    """

    algorithm: Algorithm
    members: int
    steps: int
    latency: Seconds
    uses: dict[int, float]
    parts: LoadedParts
    limit: float = np.inf
    network_steps: int = 0
    nodes: int = 1
    pair_share: float = 1.0
    network_share: float = 1.0

    @property
    def imbalance(self) -> float:
        """Bytes of the busiest member divided by the bytes of each member under equal splits."""
        splits, n = self.algorithm.splits, self.members
        return 1.0 if splits is None or not self.steps else splits.busiest * n / (n - 1)


def compute_load(algorithm: Algorithm, members: Members, system: System) -> AlgorithmLoad:
    """Compute the load of an algorithm on a system.

    If the members fill several nodes evenly, the algorithm runs on one channel per local member.
    Each channel rotates the order within the nodes, so that traffic between nodes uses all NICs of
    a node evenly, as NCCL's rings do (Hu et al. 2025, arXiv:2507.04786). Groups that fill nodes
    unevenly, and collectives with unequal splits, use one channel.

    Raises
    ------
    BackendError
        Two members have no route between them.
    """
    n = len(members)
    orders = [members] if algorithm.is_symmetric(n) else channel_orders(members, system)
    shape = (n, len(orders)) if algorithm.nested else (n,)
    if algorithm.splits is not None:
        algorithm, order = _in_one_channel(algorithm, members, system)
        orders = [order]
    _require_joined(members, system)
    uses = _exchange_loads(algorithm, members, system)
    if uses is None:
        uses = _loads(_sends(algorithm, orders, shape), system)
    path = algorithm.latency_path(*shape)
    ends = np.array(orders[0])[np.array(path, np.int64).reshape(-1, 2)]
    latency = sum(system.zero_byte_latencies(ends[:, 0], ends[:, 1]).tolist())
    latency += (algorithm.max_sends_per_step(*shape) - 1) * posting_cost(orders[0], system)
    used = {c: load for c, load in uses.items() if load}
    loaded = np.fromiter(used, np.int64, len(used))
    bounds = system.components.column_of(loaded, lambda part: part.limit, float)
    bounded = loaded[bounds < np.inf].tolist()
    most = {}
    if bounded:
        most = _largest_flow_of_a_sender(_sends(algorithm, orders, shape), bounded, system)
    limit = sender_rate_limit(most, system)
    machine = system.machine_numbers
    across = int(np.count_nonzero(machine[ends[:, 0]] != machine[ends[:, 1]]))
    machines = machine[np.array(orders[0])]
    pair_share, network_share = _largest_shares(algorithm, shape, machines)
    return AlgorithmLoad(
        algorithm,
        n,
        len(path),
        latency,
        used,
        LoadedParts.of(used, system),
        limit,
        across,
        len(np.unique(machines)),
        pair_share,
        network_share,
    )


def _largest_shares(
    algorithm: Algorithm, shape: tuple[int, ...], node: NDArray[np.int64]
) -> tuple[float, float]:
    """Largest amount between two members, and largest message between machines.

    Both are per byte of the collective. A double binary tree sends half of the data over each tree,
    so a message between machines is half.

    Parameters
    ----------
    node : (members,) machine of each member
    """
    if algorithm.exchange is not None and algorithm.is_exchange:
        part = algorithm.exchange.part(len(node))
        return algorithm.exchange.times * part, (len(np.unique(node)) > 1) * part
    _, _, share = algorithm.flows(*shape)
    return float(share.max(initial=0.0)), _network_share(algorithm.steps(*shape), node)


def _network_share(steps: Sequence[Step], node: NDArray[np.int64]) -> float:
    most = 0.0
    for step in steps:
        leaves = node[step.source] != node[step.target]  # the switch stands for the last member
        parts = np.broadcast_to(step.parts, len(leaves))[leaves]
        most = max(most, float(parts.max(initial=0)) / step.of)
    return most


def _in_one_channel(
    algorithm: Algorithm, members: Members, system: System
) -> tuple[Algorithm, Members]:
    """Algorithm for unequal splits, and its member order (node by node if it is nested)."""
    if not algorithm.nested or algorithm.splits is None:
        return algorithm, members
    nodes = system.machine_numbers[list(members)].tolist()
    first = {node: i for i, node in reversed([*enumerate(nodes)])}
    order = sorted(range(len(members)), key=lambda i: first[nodes[i]])
    return algorithm.split(algorithm.splits.ordered(order)), tuple(members[i] for i in order)


class MessageLoads(NamedTuple):
    """Loads of point-to-point messages, each one step from one GPU to another.

    Parameters
    ----------
    latency : (messages,) latency in s, without protocol costs
    across : (messages,) True if the message goes from one machine to another
    limit : (messages,) largest rate in B/s that limits of single senders allow; infinite if none
    message, parts : index of the message, and component with its load: one row per component that a
        message crosses, sorted by message and position on its path
    """

    latency: NDArray[np.float64]
    across: NDArray[np.bool_]
    limit: NDArray[np.float64]
    message: NDArray[np.int64]
    parts: LoadedParts


def compute_message_loads(
    sender: NDArray[np.int64], receiver: NDArray[np.int64], system: System
) -> MessageLoads:
    """Compute the loads of many point-to-point messages at once.

    Raises
    ------
    BackendError
        The two GPUs of a message have no route between them.

    Examples
    --------
    >>> from ..part.link import Link
    >>> from ..part.switch import Switch, star
    >>> board = Link(bandwidth=1e9, latency=1e-6)
    >>> system = star(3, board, Switch(bandwidth=1e9, latency=0, ports=3))
    >>> loads = compute_message_loads(np.array([0, 2]), np.array([1, 1]), system)
    >>> loads.latency.tolist(), loads.message.tolist(), loads.parts.share.tolist()
    ([1e-06, 1e-06], [0, 0, 1, 1], [1.0, 1.0, 1.0, 1.0])
    """
    latency = system.zero_byte_latencies(sender, receiver)
    for lost in np.flatnonzero(np.isnan(latency))[:1].tolist():
        require_route(int(sender[lost]), int(receiver[lost]), system)
    flow, crossed, share = system.crossings(sender, receiver)
    _, first, one = np.unique(
        flow * len(system.components) + crossed, return_index=True, return_inverse=True
    )
    # a component shared by two paths of a message counts once
    order = np.lexsort((first, flow[first]))
    message, component = flow[first[order]], crossed[first[order]].astype(np.int32)
    share = np.bincount(one.ravel(), share, len(first))[order].astype(np.float64)
    used, which = np.unique(component, return_inverse=True)
    of = system.components
    rate = of.column_of(used, lambda part: part.rate or 0.0, float)[which]
    bound = of.column_of(used, lambda part: part.limit, float)[which]
    limit = np.full(len(sender), np.inf)
    np.minimum.at(limit, message, bound / share)
    parts = LoadedParts(component, share, rate, of.column_of(used, _is_wire, bool)[which])
    across = system.machine_numbers[sender] != system.machine_numbers[receiver]
    return MessageLoads(latency, across, limit, message, parts)


def compute_half_send_load(
    sender: int, receiver: int, to_switch: bool, system: System
) -> AlgorithmLoad:
    """Compute the load of a message between one GPU and the reducing switch.

    Its latency is that of the complete path through the switch, as for a step of the collective.

    Parameters
    ----------
    to_switch : True if the message stays on the sender's side of the switch, False if it stays on
        the receiver's side

    Raises
    ------
    BackendError
        Fewer than three GPUs are joined, so the two sides of the switch cannot be told apart.
    """
    member, other = (sender, receiver) if to_switch else (receiver, sender)
    node = system.node_of(member)
    third = next((g for g in system.numbers
                  if g not in (member, other) and system.node_of(g) == node), None)  # fmt: skip
    if third is None:
        raise BackendError(
            f"{system.components[member].name}: no switch joins three GPUs there, so none can "
            "reduce; expand the collective with another algorithm, such as ring"
        )
    uses = dict(_crossed_shares(member, to_switch, (other, third), system))
    latency = hop_latency(sender, receiver, system)
    return AlgorithmLoad(SEND, 2, 1, latency, uses, LoadedParts.of(uses, system))


def sender_rate_limit(most: Mapping[int, float], system: System) -> float:
    """Largest rate of a collective in B/s that the limits of single senders allow.

    Parameters
    ----------
    most : largest amount that one sender sends over each component, per byte of the collective
    """
    bounds = [system.components[c].limit / share for c, share in most.items()]
    return min(bounds, default=np.inf)


def _require_joined(members: Members, system: System) -> None:
    """Raise an error if a member has no route to the first member."""
    lost = np.isnan(system.zero_byte_latencies(np.full(len(members), members[0]), members))
    if lost.any():
        require_route(members[0], members[int(np.argmax(lost))], system)


class _Sends(NamedTuple):
    """Sends between members in one channel: positions in the channel's order, and size of each.

    Sizes are fractions of the collective's size.
    """

    order: Members
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    share: NDArray[np.float64]


def _sends(algorithm: Algorithm, orders: Sequence[Members], shape: tuple[int, ...]) -> list[_Sends]:
    """Sends of all channels; each channel carries an equal part of the data."""
    source, target, share = algorithm.flows(*shape)
    return [_Sends(order, source, target, share / len(orders)) for order in orders]


def _exchange_loads(
    algorithm: Algorithm, members: Members, system: System
) -> dict[int, float] | None:
    """Bytes over each component if every member sends the same amount to every other member.

    None if the amounts differ, or if the topology cannot compute this without listing all pairs.
    """
    told = algorithm.exchange
    if told is None or not algorithm.is_exchange:
        return None
    found = system.exchange_loads(members, told.times * told.part(len(members)))
    return None if found is None else dict(zip(*(x.tolist() for x in found), strict=True))


def _loads(sends: Sequence[_Sends], system: System) -> dict[int, float]:
    """Bytes over each component per byte of the collective, summed over all channels."""
    found: dict[int, float] = {}
    source, target, share = _between_members(sends)
    if len(source):
        component, load = system.loads(source, target, share)
        found = dict(zip(component.tolist(), load.tolist(), strict=True))
    for one in sends:
        for a, b, part in _through_the_switch(one):
            member = one.order[a if b == SWITCH else b]
            for c, crossing in _crossed_shares(member, b == SWITCH, one.order, system).items():
                found[c] = found.get(c, 0.0) + part * crossing
    return found


def _between_members(sends: Sequence[_Sends]) -> tuple[NDArray[Any], ...]:
    """Senders, receivers and sizes of the sends that bypass the switch.

    Sizes are fractions of the collective's size.
    """
    columns = []
    for order, source, target, share in sends:
        member = np.array(order, np.int64)
        if min(source.min(initial=0), target.min(initial=0)) == SWITCH:
            own = (source != SWITCH) & (target != SWITCH)
            source, target, share = source[own], target[own], share[own]
        columns.append((member[source], member[target], share))
    if len(columns) == 1:
        return columns[0]
    return tuple(map(np.concatenate, zip(*columns, strict=True)))


def _through_the_switch(sends: _Sends) -> Iterator[tuple[int, int, float]]:
    some = (sends.source == SWITCH) | (sends.target == SWITCH)
    columns = (x[some].tolist() for x in (sends.source, sends.target, sends.share))
    return zip(*columns, strict=True)


def _largest_flow_of_a_sender(
    sends: Sequence[_Sends], bounded: Sequence[int], system: System
) -> dict[int, float]:
    """Largest amount from one sender to one receiver, for each component that limits senders.

    Amounts are per byte of the collective.
    """
    source, target, share = _between_members(sends)
    flow, component, part = system.crossings(source, target)
    ours = np.isin(component, bounded)
    flow, component, part = flow[ours], component[ours], part[ours]
    _, pair = np.unique(source * len(system.components) + target, return_inverse=True)
    key, where = np.unique(component * (1 + pair.max(initial=0)) + pair[flow], return_inverse=True)
    sent = np.bincount(where, part * share[flow])
    most: dict[int, float] = {}
    for c, much in zip((key // (1 + pair.max(initial=0))).tolist(), sent.tolist(), strict=True):
        most[c] = max(most.get(c, 0.0), much)
    return most


def hop_latency(a: int, b: int, system: System) -> Seconds:
    """Latency in s of an empty message: all crossings, and the cost to enter the network.

    If there are several routes, the longest counts, since a message has arrived when all parts
    have.
    """
    require_route(a, b, system)
    return float(system.zero_byte_latencies(a, b)[0])


def posting_cost(members: Members, system: System) -> Seconds:
    """Time in s to post one more message while others are in flight."""
    crossed = system.crossing_fractions(members[0], members[-1])
    return max((system.components[c].overhead for c in crossed), default=0.0)


def routes(a: int, b: int, system: System) -> tuple[Route, ...]:
    """Routes between two GPUs.

    Raises
    ------
    BackendError
        No route joins the two GPUs.
    """
    require_route(a, b, system)
    return system.routes(a, b)


def require_route(a: int, b: int, system: System) -> None:
    """Raise an error if no route joins two GPUs.

    Raises
    ------
    BackendError
        The GPUs have no route; the message names both.
    """
    if a != b and not system.crossing_fractions(a, b):
        names = system.components[a].name, system.components[b].name
        raise BackendError(f"{names[0]}: no route to {names[1]}; give the cluster a link or fabric")


TO_NIC = ("to_nic", "from_nic")
"""Roles of links on which a NIC moves bytes by DMA, independent of the link rate that GPU threads
reach."""


def _is_wire(component: Component) -> bool:
    return component.kind == "nic" or not component.node or component.role in TO_NIC


def fills_nodes_evenly(members: Members, system: System) -> bool:
    """True if a group covers several nodes with the same number of members on each.

    >>> from ....sim.facts.system import Component, Location
    >>> gpus = [Component(f"node{i}.gpu{j}", "gpu", slots=1, location=Location(f"node{i}"))
    ...         for i in range(2) for j in range(2)]
    >>> system = System(tuple(gpus))
    >>> fills_nodes_evenly((0, 1, 2, 3), system), fills_nodes_evenly((0, 1, 2), system)
    (True, False)
    """
    _, counts = np.unique(system.machine_numbers[list(members)], return_counts=True)
    return len(counts) > 1 and bool(np.all(counts == counts[0]))


def channel_orders(members: Members, system: System) -> list[Members]:
    """Order of the members in each channel; channel k enters every node at its k-th member.

    >>> from ....sim.facts.system import Component, Location
    >>> gpus = [Component(f"node{i}.gpu{j}", "gpu", slots=1, location=Location(f"node{i}"))
    ...         for i in range(2) for j in range(2)]
    >>> channel_orders((0, 1, 2, 3), System(tuple(gpus)))
    [(0, 1, 2, 3), (1, 0, 3, 2)]
    """
    local: dict[int, list[int]] = {}
    for m, machine in zip(members, system.machine_numbers[list(members)].tolist(), strict=True):
        local.setdefault(machine, []).append(m)
    groups = list(local.values())
    width = len(groups[0])
    if len(groups) == 1 or any(len(g) != width for g in groups):
        return [members]
    return [tuple(m for g in groups for m in g[k:] + g[:k]) for k in range(width)]


def _crossed_shares(
    member: int, to_switch: bool, others: Sequence[int], system: System
) -> Mapping[int, float]:
    """Fraction of a flow to or from the switch that crosses each component on the member's side."""
    x, y = [m for m in others if m != member][:2]
    ends = [(member, x), (member, y)] if to_switch else [(x, member), (y, member)]
    one, other = (system.crossing_fractions(*end) for end in ends)
    return {c: share for c, share in one.items() if c in other}
