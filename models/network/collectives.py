"""The fabric: sends and collectives, with the algorithm and protocol a library would pick.

For every group, size and way to do it the same three numbers: a start, latencies that add up,
and bytes on every link.  The quickest way is taken.  At fidelity ``flow`` the bytes become one
activity that shares all those links with everything else; at ``alpha-beta`` a time of their own.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.backend import Backend, Timing, Usage, backend
from ...sim.csr import Csr
from ...sim.errors import BackendError
from ...sim.ops import Kind, Ops, require
from ...sim.signature import parse_signature
from ...sim.system import CORE, System
from ...sim.units import ByteRate, Ratio, Seconds
from .algorithms import ALGORITHMS
from .load import (
    AlgorithmLoad,
    Members,
    between_machines_mask,
    compute_load,
    fills_nodes_evenly,
    hop_latency,
    require_route,
)

FIDELITIES = ("alpha-beta", "flow")
PAYLOAD = {"simple": 1.0, "ll128": 120 / 128, "ll": 1 / 2}
"""Share of the bytes on the wire that are data: ``ll`` sends a flag with every 4 bytes, ``ll128``
8 bytes of flags in 128 (NCCL's protocols: Hu et al. 2025, arXiv:2507.04786, table I)."""


Floats = NDArray[np.float64]


class Protocol(NamedTuple):
    """A protocol of a library: how it moves the bytes of one step."""

    launch: Seconds
    step: Seconds
    efficiency: Ratio


class CollectivePlan(NamedTuple):
    """One algorithm with one protocol among certain GPUs."""

    load: AlgorithmLoad
    protocol: str
    fixed: Seconds
    beta: float
    """Seconds a byte when alone."""
    component: NDArray[np.int32]
    weight: Floats
    """What it uses: bytes for which a byte of S occupies each, flags and what is not reached
    included."""
    limit: float
    """Bytes of S a second at most, where losses or windows bound each sender."""


Cores = tuple[int, ...]  # of the members of a group, where a library's threads run on them


class _TimingBuilder:
    """Builder of a ``Timing``, filled group by group."""

    def __init__(self, n: int):
        self.fixed, self.work = np.zeros(n), np.zeros(n)
        self._limit = np.full(n, np.inf)
        self.picked: Counter[str] = Counter()
        self._counts = np.zeros(n, np.int64)
        self._uses: list[tuple[NDArray[np.int64], NDArray[np.int32], Floats]] = []

    def add(
        self, rows: NDArray[np.int64], way: CollectivePlan, fixed: Floats, work: Floats
    ) -> None:
        """Set one plan for some rows; ``work`` is at the shared rate of all it uses."""
        self.fixed[rows], self.work[rows] = fixed, work
        if work.any():
            self._limit[rows] = way.limit
            self._add_use(rows, way.component, way.weight)

    def keep(
        self,
        rows: NDArray[np.int64],
        way: CollectivePlan,
        alone: Floats,
        spent: Floats,
        cores: Cores,
    ) -> None:
        """Set one plan that keeps its links for its whole time, and the cores for a part of it.

        Parameters
        ----------
        alone, spent : s, of each row: what it takes, and what it takes of each core
        """
        self.work[rows], self._limit[rows] = alone * CORE, CORE
        links = np.broadcast_to(way.weight / way.beta / CORE, (len(alone), len(way.weight)))
        share = np.repeat(spent[:, None] / alone[:, None], len(cores), axis=1)
        component = np.concatenate([way.component, np.array(cores, np.int32)])
        self._add_use(rows, component, np.hstack([links, share]))

    def _add_use(
        self, rows: NDArray[np.int64], component: NDArray[np.int32], weight: Floats
    ) -> None:
        self._counts[rows] = len(component)
        self._uses.append((rows, component, weight))

    def limit(self) -> Floats | None:
        """Largest work per second; None where nothing bounds a sender."""
        return self._limit if (self._limit < np.inf).any() else None

    def usage(self) -> Usage:
        """Components and weights of every row."""
        indptr = np.zeros(len(self.fixed) + 1, np.int64)
        np.cumsum(self._counts, out=indptr[1:])
        component, weight = np.zeros(indptr[-1], np.int32), np.zeros(indptr[-1])
        for rows, used, each in self._uses:
            at = indptr[rows, None] + np.arange(len(used))
            component[at], weight[at] = used, each
        return Usage(indptr, component, weight)


@backend("fabric")
class Fabric(Backend):
    """The fabric that joins the GPUs, with the library that drives it.

    Parameters
    ----------
    fidelity : str
        ``flow``: transfers share links with all others; ``alpha-beta``: each as if alone.
    algorithms : str
        Those of ``algorithms.py`` that the library has, ``"ring, chain-tree"``; "" for all.
    launch, step, efficiency : Seconds, Seconds, Ratio
        Start of a collective, what the library adds to the latency of each step, and the share of
        the line rate that large transfers reach.
    launch_ll128, step_ll128, efficiency_ll128 : or None
        The same with flags in every 128 bytes: quicker to start, less of the line rate.  A launch
        makes the protocol available; the others default to those above, less the flags.
    launch_ll, step_ll, efficiency_ll : or None
        The same with a flag on every 4 bytes.
    in_switch_efficiency : Ratio or None
        The same where the switch reduces; None for a switch that does not.
    network_efficiency : Ratio or None
        Share of the rate of NICs and of what joins them; None for ``efficiency``.
    copying : Ratio
        What it takes a member to copy a byte that it does not pass on, of what a byte takes that it
        sends: a channel is one block of threads, which does one or the other.
    dispatch : Seconds
        What the host takes from the call to the start of each collective where nothing hides it,
        the GPUs being idle.  0 where the host runs ahead, or where its ops are in the graph.
    core_step, core_rate : Seconds, ByteRate or None
        What each step, and the bytes of the busiest link, take of a core that a library's threads
        share with the ops of their rank (``gpu: {core: true}``); no rate for nothing.  Beside a
        thread that computes all the time a collective takes as much longer as it takes of the
        core, and the thread gets what the collective takes alone: each goes on at the same share of
        its pace, as gloo was measured to.

    Examples
    --------
    >>> from .link import Link
    >>> from .switch import Switch, star
    >>> link = Link(bandwidth=1e9, latency=1e-6)
    >>> system = star(4, link, Switch(bandwidth=1e9, latency=0, ports=4))
    >>> ops = Ops.of(kind=Kind.COLLECTIVE, bytes=[1e9], signature=0,
    ...     signatures=("collective:all-reduce fp32[250000000]",))
    >>> fabric = Fabric(algorithms="ring")
    >>> timing = fabric.timing(ops.asked(system, 12, Csr.of([[0, 1, 2, 3]])))
    >>> round(float(timing.fixed[0]), 9), timing.work.tolist(), timing.usage.weight.tolist()
    (6e-06, [1000000000.0], [1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5])
    >>> timing.source[0]
    'model:fabric flow launch=0 s efficiency=1: 1 all-reduce ring/simple'

    References
    ----------
    See ``algorithms.py``; the α-β model is Hockney 1994, doi:10.1016/S0167-8191(06)80021-9.
    """

    uniform = True

    def __init__(
        self,
        *,
        fidelity: str = "flow",
        algorithms: str = "",
        launch: Seconds = 0.0,
        step: Seconds = 0.0,
        efficiency: Ratio = 1.0,
        launch_ll128: Seconds | None = None,
        step_ll128: Seconds | None = None,
        efficiency_ll128: Ratio | None = None,
        launch_ll: Seconds | None = None,
        step_ll: Seconds | None = None,
        efficiency_ll: Ratio | None = None,
        in_switch_efficiency: Ratio | None = None,
        network_efficiency: Ratio | None = None,
        copying: Ratio = 0.0,
        dispatch: Seconds = 0.0,
        core_step: Seconds = 0.0,
        core_rate: ByteRate | None = None,
    ):
        _check_known("fidelity", fidelity, FIDELITIES)
        names = tuple(dict.fromkeys(a for way in ALGORITHMS.values() for a in way))
        self.algorithms = tuple(a.strip() for a in algorithms.split(",") if a.strip()) or names
        for algorithm in self.algorithms:
            _check_known("algorithm", algorithm, names)
        self.protocols = {"simple": Protocol(launch, step, efficiency)}
        for name, start, each, reach in (
            ("ll128", launch_ll128, step_ll128, efficiency_ll128),
            ("ll", launch_ll, step_ll, efficiency_ll),
        ):
            if start is not None:
                each = step if each is None else each
                reach = efficiency * PAYLOAD[name] if reach is None else reach
                self.protocols[name] = Protocol(start, each, reach)
        self.network_efficiency = network_efficiency
        self.copying, self.dispatch = copying, dispatch
        self.core_step, self.core_rate = core_step, core_rate
        self.fidelity, self.in_switch_efficiency = fidelity, in_switch_efficiency
        self.source = f"model:fabric {fidelity} launch={launch:.4g} s efficiency={efficiency:.3g}"
        self._ways: dict[tuple[str, Members], list[CollectivePlan]] = {}
        self._stretches: dict[tuple[str, float, float], Floats] = {}

    def open(self, system: System) -> None:
        """Bind to a system; what is known of another one is dropped."""
        self._ways, self._stretches = {}, {}  # anew: a copy may be asked on another system

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Timing of sends (by bytes), recvs (none: they end with the send), collectives."""
        if ops.at is None:
            raise BackendError("fabric: asked without a machine; place the graph first")
        answer = _TimingBuilder(len(ops))
        for (name, members), rows in _rows_by_group(ops, ops.at.members).items():
            self._answer_group(name, members, np.array(rows), ops, ops.at.system, answer)
        picks = ", ".join(f"{n} {what}" for what, n in answer.picked.most_common(4))
        source = f"{self.source}: {picks}" if picks else self.source
        return Timing.of(answer.fixed, answer.work, answer.usage(), answer.limit(), source=source)

    def ways(self, collective: str, members: Members, system: System) -> list[CollectivePlan]:
        """Plans of every algorithm and protocol for a collective among these members.

        Raises
        ------
        BackendError
            An unknown collective, or an algorithm that cannot do it for this group.
        """
        key = (collective, members)
        plans = self._ways.get(key)
        if plans is None:
            plans = self._ways[key] = self._plans(collective, members, system)
        return plans

    def _plans(self, collective: str, members: Members, system: System) -> list[CollectivePlan]:
        _check_known("collective", collective, tuple(ALGORITHMS))
        together = len({system.node_of(m) for m in members}) == 1
        plans = []
        for a in ALGORITHMS[collective].values():
            possible = a.name in self.algorithms and a.usable(len(members))
            if a.in_switch and (self.in_switch_efficiency is None or not together):
                possible = False
            if a.nested and not fills_nodes_evenly(members, system):
                possible = False
            if possible:
                plans += self._protocols(compute_load(a, members, system), system)
        if not plans:
            raise BackendError(
                f"fabric: no algorithm of {list(self.algorithms)} does {collective} for "
                f"{len(members)} members; add one of {list(ALGORITHMS[collective])}"
            )
        return plans

    def _protocols(self, laid: AlgorithmLoad, system: System) -> list[CollectivePlan]:
        """Plans of one algorithm with every protocol; in the switch with the simple one only."""
        if laid.algorithm.in_switch and self.in_switch_efficiency is not None:
            own = self.protocols["simple"]._replace(efficiency=self.in_switch_efficiency)
            protocols = {"simple": own}
        else:
            protocols = self.protocols
        return [
            self._protocol_plan(laid, n, self.dispatch + p.launch, p, system)
            for n, p in protocols.items()
        ]

    def _protocol_plan(
        self, laid: AlgorithmLoad, name: str, launch: Seconds, protocol: Protocol, system: System
    ) -> CollectivePlan:
        stretch = self._bytes_per_byte_sent(
            name, protocol.efficiency, self._last_part_cost(laid), system
        )
        component = np.array(list(laid.uses), np.int32)
        weight = np.array(list(laid.uses.values())) * stretch[component]
        fixed = launch + laid.latency + laid.steps * protocol.step
        beta = laid.seconds_per_byte(system, stretch)
        return CollectivePlan(laid, name, fixed, beta, component, weight, laid.limit(system))

    def _last_part_cost(self, laid: AlgorithmLoad) -> float:
        """Extra cost of a member's last part, as a share of what it sends."""
        if not (self.copying and laid.algorithm.passes_on):
            return 0.0
        n = laid.members
        return self.copying * laid.algorithm.last_share_received(n) / laid.algorithm.volume(n)

    def _bytes_per_byte_sent(
        self, protocol: str, efficiency: Ratio, copied: float, system: System
    ) -> Floats:
        """(components,) bytes by which each component is busy for each byte that is sent over it.

        Parameters
        ----------
        efficiency : share of a component's rate that the protocol reaches
        copied : bytes that a member copies besides, per byte that it sends; not over wires
        """
        key = (protocol, efficiency, copied)
        stretch = self._stretches.get(key)
        if stretch is None:
            stretch = np.full(len(system.components), (1 + copied) / efficiency)
            reached = efficiency
            if self.network_efficiency is not None:
                reached = self.network_efficiency * PAYLOAD[protocol]
            stretch[between_machines_mask(system)] = 1 / reached
            self._stretches[key] = stretch
        return stretch

    def _answer_group(
        self,
        name: str,
        members: Members,
        rows: NDArray[np.int64],
        ops: Ops,
        system: System,
        answer: _TimingBuilder,
    ) -> None:
        """Fill in the rows of one group, each with its quickest plan."""
        if name == "recv" or (name != "send" and len(members) < 2):
            return
        size = _sizes_of_rows(name, ops, rows)
        ways = (
            [self._send_plan(members, system)]
            if name == "send"
            else self.ways(name, members, system)
        )
        seconds = np.array([self.alone(name, w, members, size, system) for w in ways])
        best = np.argmin(seconds, axis=0)
        cores = self._member_cores(members, system)
        for k in np.unique(best).tolist():
            mine, way = best == k, ways[k]
            if name != "send":
                what = f"{name} {way.load.algorithm.name}/{way.protocol}"
                answer.picked[what] += int(mine.sum())
            if self.fidelity == "flow" and (self.keeps(name) or (cores and name != "send")):
                spent = self._core_seconds(way, size[mine])
                answer.keep(rows[mine], way, seconds[k, mine], spent, cores)
            elif self.fidelity == "flow":
                answer.add(rows[mine], way, np.full(mine.sum(), way.fixed), size[mine])
            else:
                answer.add(rows[mine], way, seconds[k, mine], np.zeros(mine.sum()))

    def keeps(self, name: str) -> bool:
        """Whether a collective keeps its links for its whole time."""
        return False

    def alone(
        self, name: str, way: CollectivePlan, members: Members, size: Floats, system: System
    ) -> Floats:
        """Seconds of sends or collectives of given sizes when nothing else runs."""
        moves = np.zeros(len(size))  # nothing takes no time, on a link that is down either
        return way.fixed + np.multiply(size, way.beta, where=size > 0, out=moves)

    def _member_cores(self, members: Members, system: System) -> Cores:
        """Cores of the members, where the library's threads run on them."""
        cores = tuple(system.part(m, "core") for m in members)
        return () if self.core_rate is None or min(cores) < 0 else cores

    def _core_seconds(self, way: CollectivePlan, size: Floats) -> Floats:
        """Seconds of work on each core."""
        if self.core_rate is None:
            return np.zeros(len(size))
        most = max(way.load.uses.values())
        return way.load.steps * self.core_step + size * most / self.core_rate

    def _send_plan(self, members: Members, system: System) -> CollectivePlan:
        """Plans of a send from the first member to the second: one step of the simple protocol."""
        a, b = members[0], members[-1]
        require_route(a, b, system)
        uses = dict(system.shares(a, b))
        most = {c: share for c, share in uses.items() if system.components[c].limit < np.inf}
        once = AlgorithmLoad(
            ALGORITHMS["broadcast"]["chain"], 2, 1, hop_latency(a, b, system), uses, most
        )
        return self._protocol_plan(once, "simple", 0.0, self.protocols["simple"], system)


def _check_known(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise BackendError(f"fabric: {what} {value!r} is unknown; take one of {list(allowed)}")


def _collective_names(ops: Ops) -> list[str]:
    """Name of each row's collective; ``send`` and ``recv`` for those."""
    parsed = [parse_signature(s).name for s in ops.signatures]
    plain = {int(Kind.SEND): "send", int(Kind.RECV): "recv"}
    rows = zip(ops.kind.tolist(), ops.signature.tolist(), strict=True)
    return [plain.get(kind) or (parsed[s] if s >= 0 else "unknown") for kind, s in rows]


def _rows_by_group(ops: Ops, members: Csr) -> dict[tuple[str, Members], list[int]]:
    """Rows grouped by collective and members."""
    rows_of: dict[tuple[str, bytes], list[int]] = {}
    for row, name in enumerate(_collective_names(ops)):
        rows_of.setdefault((name, members[row].tobytes()), []).append(row)
    return {(n, tuple(members[rows[0]].tolist())): rows for (n, _), rows in rows_of.items()}


def _sizes_of_rows(name: str, ops: Ops, rows: NDArray[np.int64]) -> Floats:
    if name == "barrier":
        return np.zeros(len(rows))
    if np.isnan(ops.bytes[rows]).any():
        require(ops, "bytes")
    return ops.bytes[rows]
