"""The fabric: sends and collectives, with the algorithm and protocol a library would pick.

For every group, size and way to do it the same three numbers: a start, latencies that add up,
and bytes on every link.  The quickest way is taken.  At fidelity ``flow`` the bytes become one
activity that shares all those links with everything else; at ``alpha-beta`` a time of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import BackendError
from ....sim.facts.backend import Backend, Timing, Usage, backend
from ....sim.facts.csr import Csr
from ....sim.facts.ops import Kind, Ops, require
from ....sim.facts.signature import parse_signature
from ....sim.facts.splits import SPLIT, CollectiveName, Splits, read_collective
from ....sim.facts.system import Router, System
from ....sim.units import ByteRate, Bytes, Ratio, Seconds
from . import nccl
from .algorithms import ALGORITHMS
from .choice import PinnedAlgorithms, first_of_least
from .collective_plan import CollectivePlan
from .group_shapes import GroupShapes
from .load import (
    SEND,
    AlgorithmLoad,
    Members,
    compute_half_send_load,
    compute_load,
    compute_message_loads,
    fills_nodes_evenly,
)
from .protocols import (
    MOVED_BY_SENDS,
    Fetched,
    Filling,
    Floats,
    Pace,
    Protocol,
    ProtocolSettings,
    Rounds,
    protocols,
)
from .steps import FROM_SWITCH, TO_SWITCH, Algorithm
from .timing_builder import Cores, CoreUse, TimingBuilder

FIDELITIES = ("alpha-beta", "flow")
CHOICES = ("quickest", "nccl")
MOST_TABLES = 4  # of groups whose shapes are kept
SENDS = ("send", f"send{TO_SWITCH}", f"send{FROM_SWITCH}")
_NO_CORES = np.empty((1, 0), np.int32)


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
    in_switch_efficiency, in_switch_launch : Ratio or None, Seconds or None
        The same where the switch reduces; None for a switch that does not, and for ``launch``.
    in_switch_channels, in_switch_round : int or None, Seconds
        Chunks that each member sends to the switch at a time, and what a round of them takes beside
        its bytes (``protocols.Rounds``); None for chunks as small as you like.
    network_step, network_efficiency : Seconds or None, Ratio or None
        What the library adds to a step between machines (proxy thread, doorbell, completion), and
        its share of the rate of NICs and of what joins them; None for ``step``, ``efficiency``.
    network_step_ll128, network_efficiency_ll128, network_step_ll, network_efficiency_ll : or None
        The same of those protocols; None for those of ``simple``, less the flags.
    network_eager, network_fetch : Bytes or None, Seconds
        Messages of more bytes on the wire than these are fetched by their receiver (rendezvous),
        which takes each step between machines so much longer; None for a library that fetches none.
    network_pace : Seconds or None
        What a step of a ring of ``simple`` over machines takes at least: all its members wait for
        those that send to another machine.  Bytes move meanwhile, and where they take longer
        nothing else is waited for.  None for steps whose latencies add to the bytes.
    network_copied, network_copy_rate : Bytes, ByteRate or None
        Messages of such a ring of at most so many bytes are copied by the host, at such a rate;
        None for none.
    copying : Ratio
        What it takes a member to copy a byte that it does not pass on, of what a byte takes that it
        sends: a channel is one block of threads, which does one or the other.
    send_launch, send_efficiency, send_launch_ll : Seconds, Ratio, or None
        Start and share of the line rate of what is written as grouped sends (all-to-all, scatter,
        gather); None for those of other collectives.
    send_lateness : Seconds
        How late a member starts its sends, in the mean; exponential, so that the last of n is n's
        harmonic number as late.
    send_rate_ll : ByteRate or None
        Of ``ll``, from a member to another at most: each pair has few threads of its own.
    send_copying : Ratio or None
        Of grouped sends, in place of ``copying``.
    low_latency_launch, low_latency_efficiency : Seconds or None, Ratio
        Start of an all-to-all in which each GPU writes what it has for each other straight into
        that one's memory, and the share of the rate of NICs and links that it reaches: no buffers
        that others copy, no step of a proxy; None for a library that has none, which refuses it.
    own_part : Ratio
        What it takes a member of grouped sends to copy a byte of its part to itself, of what a byte
        takes that it sends: the same threads do both.
    piece : Bytes or None
        Of S, that the buffers of all channels hold: of what is written as sends, the receivers copy
        the last piece when all has arrived.  None for pieces as small as you like.
    segment : Bytes or None
        Of S, that a pipeline (tree, chain) passes on at once: all of it on all channels, or 1/16 of
        S where that is less.  None for segments as small as you like.
    choice : str
        ``quickest``: of all ways the one that is; ``nccl``: the one that NCCL's own tables say is
        (``nccl.py``), of those that it knows.
    algorithm : str
        Pinned: ``ring``, ``ring/ll128``, ``all-reduce=tree/ll, all-gather=ring``; "" for none.
    dispatch : Seconds
        What the host takes from the call to the start of each collective where nothing hides it,
        the GPUs being idle.  0 where the host runs ahead, or where its ops are in the graph.
    core_step, core_rate : Seconds, ByteRate or None
        What each step, and the bytes of the busiest link, take of a core that a library's threads
        share with the ops of their rank, or of a GPU that its channels share with kernels
        (``gpu: {core: true}``), at either fidelity; no rate for nothing.  Beside a thread or kernel
        that computes all the time a collective takes as much longer as it takes of the core, and
        the other gets what the collective takes alone: each goes on at the same share of its pace,
        as gloo was measured to.
    core_share : Ratio or None
        Of the core, what a collective takes that nothing else holds back.  One that takes less
        waits for a network: it keeps its pace beside what computes, which gets the rest, until its
        core holds it back more than the network does.  None: the core holds back all of them.

    Examples
    --------
    >>> from ....sim.facts.csr import Csr
    >>> from ..part.link import Link
    >>> from ..part.switch import Switch, star
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
    answers_by_shape: ClassVar[bool] = True
    """Whether groups of one shape (``group_shapes.py``) are answered alike for; a subclass that
    does not say so is asked about each."""

    def __init_subclass__(cls, **more: Any) -> None:
        """Promise nothing for a subclass that does not itself."""
        super().__init_subclass__(**more)
        cls.answers_by_shape = cls.__dict__.get("answers_by_shape", False)

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
        in_switch_launch: Seconds | None = None,
        in_switch_channels: int | None = None,
        in_switch_round: Seconds = 0.0,
        network_step: Seconds | None = None,
        network_efficiency: Ratio | None = None,
        network_step_ll128: Seconds | None = None,
        network_efficiency_ll128: Ratio | None = None,
        network_step_ll: Seconds | None = None,
        network_efficiency_ll: Ratio | None = None,
        network_eager: Bytes | None = None,
        network_fetch: Seconds = 0.0,
        network_pace: Seconds | None = None,
        network_copied: Bytes | None = None,
        network_copy_rate: ByteRate | None = None,
        copying: Ratio = 0.0,
        send_launch: Seconds | None = None,
        send_efficiency: Ratio | None = None,
        send_launch_ll: Seconds | None = None,
        send_lateness: Seconds = 0.0,
        send_rate_ll: ByteRate | None = None,
        send_copying: Ratio | None = None,
        low_latency_launch: Seconds | None = None,
        low_latency_efficiency: Ratio = 1.0,
        own_part: Ratio = 0.0,
        piece: Bytes | None = None,
        segment: Bytes | None = None,
        choice: str = "quickest",
        algorithm: str = "",
        dispatch: Seconds = 0.0,
        core_step: Seconds = 0.0,
        core_rate: ByteRate | None = None,
        core_share: Ratio | None = None,
    ):
        _check_known("fidelity", fidelity, FIDELITIES)
        names = tuple(dict.fromkeys(a for way in ALGORITHMS.values() for a in way))
        self.algorithms = tuple(a.strip() for a in algorithms.split(",") if a.strip()) or names
        for name in self.algorithms:
            _check_known("algorithm", name, names)
        _check_known("choice", choice, CHOICES)
        self.choice, self.pinned = choice, PinnedAlgorithms.read(algorithm)
        simple = ProtocolSettings(launch, step, efficiency, network_step, network_efficiency)
        ll128 = ProtocolSettings(
            launch_ll128,
            step_ll128,
            efficiency_ll128,
            network_step_ll128,
            network_efficiency_ll128,
        )
        ll = ProtocolSettings(
            launch_ll, step_ll, efficiency_ll, network_step_ll, network_efficiency_ll
        )
        self.protocols = protocols(simple, ll128=ll128, ll=ll)
        self.of_sends = self.protocols
        if send_launch is not None:
            self.of_sends = protocols(
                simple._replace(launch=send_launch, efficiency=send_efficiency or efficiency),
                ll=ll._replace(launch=send_launch_ll),
            )
            if send_rate_ll is not None and "ll" in self.of_sends:
                self.of_sends["ll"] = self.of_sends["ll"]._replace(pair_rate=send_rate_ll)
        self.low_latency: Protocol | None = None
        if low_latency_launch is not None:
            share = low_latency_efficiency
            self.low_latency = Protocol(low_latency_launch, 0.0, share, 0.0, share)
        self.in_switch = self.protocols["simple"]
        if in_switch_efficiency is not None:
            start = launch if in_switch_launch is None else in_switch_launch
            self.in_switch = self.in_switch._replace(launch=start, efficiency=in_switch_efficiency)
        self.in_switch_channels, self.in_switch_round = in_switch_channels, in_switch_round
        self.fetched = None if network_eager is None else Fetched(network_eager, network_fetch)
        self.pace = _pace(network_pace, network_copied, network_copy_rate)
        self.piece, self.segment = piece, segment
        self.send_lateness = send_lateness
        self.send_copying = copying if send_copying is None else send_copying
        self.copying, self.own_part, self.dispatch = copying, own_part, dispatch
        self.core_step, self.core_rate, self.core_share = core_step, core_rate, core_share
        if core_share is not None and not 0 < core_share <= 1:
            raise BackendError(
                f"fabric: core_share {core_share:g} is no share of a core that a collective takes; "
                "take more than 0 and at most 1, or leave core_rate out for nothing"
            )
        self.fidelity, self.in_switch_efficiency = fidelity, in_switch_efficiency
        self.source = f"model:fabric {fidelity} launch={launch:.4g} s efficiency={efficiency:.3g}"
        self._ways: dict[tuple[str, Members, Router], list[CollectivePlan]] = {}
        self._shapes: dict[tuple[bytes, bytes], GroupShapes] = {}
        self._opened: System | None = None
        self._cores: tuple[System, NDArray[np.int32]] | None = None

    def open(self, system: System) -> None:
        """Bind to a system; what is known of another one is dropped."""
        if system is not self._opened:  # anew: a copy may be asked on another system
            self._ways, self._shapes, self._opened = {}, {}, system

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Timing of sends (by bytes), recvs (none: they end with the send), collectives."""
        if ops.at is None:
            raise BackendError("fabric: asked without a machine; place the graph first")
        system, members = ops.at.system, ops.at.members
        shapes = self._shapes_of(members, system, self.answers_by_shape)
        answer = TimingBuilder(len(ops), shapes)
        for name, rows in _rows_by_shape(ops, shapes.shape):
            first = int(shapes.first[shapes.shape[rows[0]]])
            if name == "send":
                alike = rows if self.fidelity == "flow" else shapes.first[shapes.shape[rows]]
                self._answer_sends(rows, alike, ops, answer)
                first = int(rows[np.argmax(answer.fixed[rows])])
            else:
                group = tuple(members[first].tolist())
                self._answer_group(name, group, rows, ops, answer)
            if np.isinf(answer.fixed[rows]).any():
                raise _endless(name, tuple(members[first].tolist()), system)
        picks = ", ".join(f"{n} {what}" for what, n in answer.picked().most_common(4))
        source = f"{self.source}: {picks}" if picks else self.source
        return Timing.of(answer.fixed, answer.work, answer.usage(), answer.limit(), source=source)

    def _shapes_of(self, members: Csr, system: System, compared: bool) -> GroupShapes:
        """Shapes of groups; those of a few tables are kept, since runs ask about the same again."""
        if system is not self._opened:
            return GroupShapes.of(members, system, compared)  # of routes that change in a run
        key = members.indptr.tobytes(), members.values.tobytes()
        if key not in self._shapes:
            if len(self._shapes) >= MOST_TABLES:
                self._shapes = {}
            self._shapes[key] = GroupShapes.of(members, system, compared)
        return self._shapes[key]

    def ways(self, collective: str, members: Members, system: System) -> list[CollectivePlan]:
        """Plans of every algorithm and protocol for a collective among these members.

        Raises
        ------
        BackendError
            An unknown collective, or an algorithm that cannot do it for this group, or not in the
            unequal parts that its name says (``sim/facts/splits.py``).
        """
        key = (collective, members, system.router)  # routes may change during a run
        plans = self._ways.get(key)
        if plans is None:
            plans = self._ways[key] = self._plans(collective, members, system)
        return plans

    def _plans(self, name: str, members: Members, system: System) -> list[CollectivePlan]:
        collective, splits, kernel = _read_name(name, len(members))
        _check_known("collective", collective, tuple(ALGORITHMS))
        if kernel:
            return [self._written_directly(kernel, splits, members, system)]
        together = len(np.unique(system.machine[list(members)])) == 1
        plans, there = [], []
        for a in ALGORITHMS[collective].values():
            possible = a.usable(len(members)) and (a.uneven or splits is None)
            # Ranks of one GPU have no switch between them.
            apart = together and len(set(members)) == len(members)
            if a.in_switch and (self.in_switch_efficiency is None or not apart):
                possible = False
            if a.nested and not fills_nodes_evenly(members, system):
                possible = False
            there += [a.name] * possible
            if possible and a.name in self.algorithms and self.pinned.allows(collective, a.name):
                plans += self.plans_of(self.load_of(a.split(splits), members, system))
        if not plans:
            pinned = self.pinned.text(collective)
            what = f"no algorithm of {list(self.algorithms)} does"
            if pinned:
                what = f"{pinned!r} is pinned and does not do"
            parts = "" if splits is None else " in unequal parts"
            raise BackendError(
                f"fabric: {what} {collective}{parts} for {len(members)} members; "
                f"{'pin' if pinned else 'add'} one of {there}"
            )
        return plans

    def _written_directly(
        self, kernel: str, splits: Splits | None, members: Members, system: System
    ) -> CollectivePlan:
        """Plan of an all-to-all whose members write into each other's memory."""
        if self.low_latency is None:
            raise BackendError(
                f"fabric: the library has no {kernel} all-to-all; take workload.exchange: normal, "
                "or a library that says low_latency_launch (nccl-nvlink4 does)"
            )
        laid = self.load_of(ALGORITHMS[SPLIT]["grouped"].split(splits), members, system)
        start = self.dispatch + self.low_latency.launch
        return CollectivePlan(laid, kernel, self.low_latency, start)

    def load_of(self, algorithm: Algorithm, members: Members, system: System) -> AlgorithmLoad:
        """Load of an algorithm among these members."""
        return compute_load(algorithm, members, system)

    def plans_of(self, laid: AlgorithmLoad) -> list[CollectivePlan]:
        """Plans of one algorithm with every protocol; in the switch with the simple one only."""
        collective = laid.algorithm.collective
        used = self.of_sends if collective in MOVED_BY_SENDS else self.protocols
        if laid.algorithm.in_switch:
            used = {"simple": self.in_switch}
        begun = self.dispatch + self._last_start(laid)
        return [
            self._protocol_plan(laid, name, begun + p.launch, p)
            for name, p in used.items()
            if self.pinned.allows(collective, laid.algorithm.name, name)
        ]

    def _protocol_plan(
        self, laid: AlgorithmLoad, name: str, launch: Seconds, protocol: Protocol
    ) -> CollectivePlan:
        rounds = filling = None
        segment = None if laid.algorithm.in_switch or laid.algorithm is SEND else self.segment
        if laid.algorithm.in_switch and self.in_switch_channels is not None:
            rounds = Rounds(self.in_switch_channels * laid.members, self.in_switch_round)
        if laid.algorithm.collective in MOVED_BY_SENDS and self.piece is not None:
            filling = Filling(self.piece / laid.crowding, self.send_copying)
        fetched = self.fetched if laid.network_steps else None
        ring = laid.algorithm.passes_on and laid.network_steps > 0
        pace = self.pace if ring and name == "simple" else None
        copied = self._last_part_cost(laid) + self._own_part_cost(laid)
        return CollectivePlan(
            laid, name, protocol, launch, copied, rounds, filling, segment, fetched, pace
        )

    def _last_part_cost(self, laid: AlgorithmLoad) -> float:
        """Extra cost of a member's last part, as a share of what it sends."""
        if not (self.copying and laid.algorithm.passes_on):
            return 0.0
        n = laid.members
        return self.copying * laid.algorithm.last_share_received(n) / laid.algorithm.volume(n)

    def _last_start(self, laid: AlgorithmLoad) -> Seconds:
        """How late the last of the members starts its sends, in the mean."""
        if not self.send_lateness or laid.algorithm.collective not in MOVED_BY_SENDS:
            return 0.0
        return self.send_lateness * float(np.sum(1 / np.arange(1, laid.members + 1)))

    def _own_part_cost(self, laid: AlgorithmLoad) -> float:
        """Extra cost of a member's part to itself, as a share of what it sends to others."""
        if laid.algorithm.collective not in MOVED_BY_SENDS or not laid.steps:
            return 0.0
        splits, n = laid.algorithm.splits, laid.members
        own = 1 / n if splits is None else splits.own
        return self.own_part * own / ((n - 1) / n * laid.crowding)

    def _answer_group(
        self,
        name: str,
        members: Members,
        rows: NDArray[np.int64],
        ops: Ops,
        answer: TimingBuilder,
    ) -> None:
        """Fill in the rows of groups of one shape, each with the quickest plan of the first."""
        if name == "recv" or (name not in SENDS and len(members) < 2):
            return
        assert ops.at is not None  # noqa: S101
        system = ops.at.system
        size = _sizes_of_rows(name, ops, rows)
        ways = (
            [self._send_plan(name, members, system)]
            if name in SENDS
            else self.ways(name, members, system)
        )
        seconds = np.array([self.alone(name, w, members, size, system) for w in ways])
        best = self._best(name, ways, seconds, size)
        cores = None if name in SENDS else self._member_cores(members, rows, ops)
        for k in np.unique(best).tolist():
            mine, way = best == k, ways[k]
            taken = self._core_use(way, size[mine], seconds[k, mine], cores, mine)
            if name not in SENDS:
                answer.note_pick(f"{way.load.algorithm.collective} {way.name}", rows, mine, k)
            if not way.load.steps:  # every member keeps all it has
                answer.add(rows[mine], way, way.start(size[mine]), np.zeros(mine.sum()))
            elif self.fidelity == "flow" and (self.keeps(name) or cores is not None):
                answer.keep(rows[mine], way, seconds[k, mine], taken)
            elif self.fidelity == "flow":
                answer.add(rows[mine], way, way.start(size[mine]), size[mine])
            elif cores is not None:
                answer.keep_cores(rows[mine], seconds[k, mine], taken)
            else:
                answer.add(rows[mine], way, seconds[k, mine], np.zeros(mine.sum()))

    def _answer_sends(
        self, rows: NDArray[np.int64], alike: NDArray[np.int64], ops: Ops, answer: TimingBuilder
    ) -> None:
        """Fill in the rows of sends: each one step of the simple protocol.

        Parameters
        ----------
        alike : (rows,) row whose members have a load like each one's
        """
        assert ops.at is not None  # noqa: S101
        system, members, moves = ops.at.system, ops.at.members, self.protocols["simple"]
        size = _sizes_of_rows("send", ops, rows)
        at = np.stack([members.indptr[alike], members.indptr[alike + 1] - 1])
        ends = members.values[at].astype(np.int64)
        pairs, pair = np.unique(ends[0] * len(system.components) + ends[1], return_inverse=True)
        loads = compute_message_loads(*np.divmod(pairs, len(system.components)), system)
        waiting = loads.latency + np.where(loads.across, moves.network_step, moves.step)
        limit = np.minimum(loads.limit, moves.pair_rate)
        weight = loads.parts.stretch(1 / moves.efficiency, 1 / moves.network_efficiency)
        fixed = waiting[pair]
        if self.fetched is not None:
            fixed += loads.across[pair] * self.fetched.seconds(size)
        if self.fidelity == "flow":
            indptr = np.searchsorted(loads.message, np.arange(len(pairs) + 1))
            uses = Csr(indptr, np.arange(len(weight), dtype=np.int32)).take(pair)
            each = Usage(uses.indptr, loads.parts.component[uses.values], weight[uses.values])
            answer.add_each(rows, fixed, size, limit[pair], each)
            return
        beta = 1 / limit
        with np.errstate(divide="ignore"):
            np.maximum.at(beta, loads.message, weight / loads.parts.rate)
        taken = np.multiply(size, beta[pair], where=size > 0, out=np.zeros(len(size)))
        answer.add_alone(rows, fixed + taken)

    def seconds(self, collective: str, members: Members, size: Floats, system: System) -> Floats:
        """(n,) seconds of a collective of such sizes among these members, on an idle system."""
        ways = self.chosen(collective, members, size, system)
        return np.asarray(sum(alone * taken for _, alone, taken in ways))

    def chosen(
        self, collective: str, members: Members, size: Floats, system: System
    ) -> list[tuple[CollectivePlan, Floats, Floats]]:
        """Every way with its seconds alone, and whether it is taken, at each size.

        Returns
        -------
        list of (plan, (n,) seconds, (n,) 1 where it is taken)
        """
        ways = self.ways(collective, members, system)
        alone = np.array([self.alone(collective, w, members, size, system) for w in ways])
        best = self._best(collective, ways, alone, size)
        return [(w, alone[k], (best == k).astype(float)) for k, w in enumerate(ways)]

    def keeps(self, name: str) -> bool:
        """Whether a collective keeps its links for its whole time."""
        return False

    def alone(
        self, name: str, way: CollectivePlan, members: Members, size: Floats, system: System
    ) -> Floats:
        """Seconds of sends or collectives of given sizes when nothing else runs."""
        return way.alone(size)

    def _best(
        self,
        name: str,
        ways: list[CollectivePlan],
        seconds: Floats,
        size: Floats,
    ) -> NDArray[np.int64]:
        """(n,) number of the way that is taken for each size."""
        if self.choice == "nccl" and name not in SENDS and len(ways) > 1:
            told = nccl.estimates(ways, size)
            if np.isfinite(told).any():
                return first_of_least(told)
        return first_of_least(seconds)

    def taking(self, factor: float) -> Fabric:
        """The same, whose collectives take so many times as much of cores.

        >>> Fabric(core_rate=1e9, core_share=0.5).taking(1.5).core_share
        0.75
        """
        other = copy(self)
        other.core_rate = None if self.core_rate is None else self.core_rate / factor
        other.core_share = None if self.core_share is None else self.core_share * factor
        other.core_step = self.core_step * factor
        return other

    def _member_cores(self, first: Members, rows: NDArray[np.int64], ops: Ops) -> Cores | None:
        """(rows, members) cores of groups of a shape; None where not each has one to share.

        Parameters
        ----------
        first : members of the first group
        """
        assert ops.at is not None  # noqa: S101
        system = ops.at.system
        if self.core_rate is None or system.part(first[0], "core") < 0:
            return None
        members = ops.at.members.take(rows)
        cores = self._cores_of(system)[members.values].reshape(len(rows), -1)
        return None if np.any(cores < 0) else cores

    def _cores_of(self, system: System) -> NDArray[np.int32]:
        """(components,) core of each GPU; -1 of all else."""
        if self._cores is None or self._cores[0] is not system:
            found = np.full(len(system.components), -1, np.int32)
            for gpu in (system.number(name) for name in system.gpus):
                found[gpu] = system.part(gpu, "core")
            self._cores = system, found
        return self._cores[1]

    def _core_use(
        self,
        way: CollectivePlan,
        size: Floats,
        alone: Floats,
        cores: Cores | None,
        mine: NDArray[np.bool_],
    ) -> CoreUse:
        """What collectives that alone take so long take of the cores of some rows."""
        if cores is None or not way.load.steps:
            return CoreUse(_NO_CORES, np.zeros(len(size)), np.ones(len(size)))
        share = self._core_seconds(way, size) / alone
        pace = np.ones(len(size))
        if self.core_share is not None:
            pace = np.where(share > 0, np.minimum(share / self.core_share, 1.0), 1.0)
        return CoreUse(cores[mine], share, pace)

    def _core_seconds(self, way: CollectivePlan, size: Floats) -> Floats:
        """Seconds of work on each core."""
        most = max(way.load.uses.values(), default=0.0)
        bytes_take = 0.0 if self.core_rate is None else most / self.core_rate
        return np.asarray(way.load.steps * self.core_step + size * bytes_take)

    def _send_plan(self, name: str, members: Members, system: System) -> CollectivePlan:
        """Plan of a send from the first member to the second that stays on a side of the switch."""
        once = compute_half_send_load(members[0], members[-1], name.endswith(TO_SWITCH), system)
        return self._protocol_plan(once, "simple", 0.0, self.in_switch)


def _check_known(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise BackendError(f"fabric: {what} {value!r} is unknown; take one of {list(allowed)}")


def _pace(least: Seconds | None, copied: Bytes | None, rate: ByteRate | None) -> Pace | None:
    if (copied is None) != (rate is None):
        given, other = ("network_copied", "network_copy_rate")[:: 1 if rate is None else -1]
        raise BackendError(f"fabric: {given} says nothing without {other}; give both, or neither")
    if least is None and copied is None:
        return None
    return Pace(least or 0.0, copied or 0.0, rate or np.inf)


def _read_name(name: str, members: int) -> CollectiveName:
    try:
        return read_collective(name, members)
    except ValueError as error:
        what = name.partition(" ")[0]
        raise BackendError(f"fabric: {what} of {members} members: {error}") from error


def _collective_names(ops: Ops) -> tuple[list[str], NDArray[np.int64]]:
    """Names of collectives, ``send`` and ``recv``; and which of them each row is."""
    parsed = [parse_signature(s).name for s in ops.signatures]
    sides = [next((f"send{e}" for e in (TO_SWITCH, FROM_SWITCH) if p.endswith(e)), "send")
             for p in parsed]  # fmt: skip
    names = [*parsed, "unknown", *sides, "send", "recv"]
    each = len(parsed) + 1
    said = np.where(ops.signature >= 0, ops.signature, each - 1)
    which = np.where(ops.kind == Kind.SEND, each + said, said)
    return names, np.where(ops.kind == Kind.RECV, 2 * each, which)


def _rows_by_shape(ops: Ops, shape: NDArray[np.int64]) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Rows of each collective among groups of one shape, with its name, by the first row.

    Those of all sends together: of pairs, each load is worked out at once with the others'.
    """
    names, which = _collective_names(ops)
    number = {name: i for i, name in enumerate(dict.fromkeys(names))}
    same = np.array([number[name] for name in names])[which]
    key = np.where(same == number["send"], 0, shape) * len(names) + same
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    rows = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    for k in np.argsort(first).tolist():
        yield names[which[first[k]]], rows[k]


def _sizes_of_rows(name: str, ops: Ops, rows: NDArray[np.int64]) -> Floats:
    if name == "barrier":
        return np.zeros(len(rows))
    if np.isnan(ops.bytes[rows]).any():
        require(ops, "bytes")
    return ops.bytes[rows]


def _endless(name: str, members: Members, system: System) -> BackendError:
    """Error of a collective in one closed form that a part without a rate keeps from ending."""
    around = zip(members, (*members[1:], members[0]), strict=True)
    on = {c for a, b in around if a != b for r in system.routes(a, b) for c in r.components}
    stuck = ", ".join(p.name for p in map(system.components.__getitem__, sorted(on)) if p.rate == 0)
    return BackendError(
        f"fabric: {name.partition(' ')[0]} never ends: it crosses {stuck or 'a part'}, which is "
        "down; leave it up, slow it down instead, or let other ranks take part"
    )
