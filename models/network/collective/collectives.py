"""The fabric backend: timing of sends and collectives, with the algorithm a library would choose.

For each group, size and candidate plan it computes three numbers: the start-up time, the sum of
latencies, and the bytes on every link. It then takes the quickest plan. At fidelity ``flow`` the
bytes become one activity that shares its links with all other traffic; at ``alpha-beta`` they take
a fixed time of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import BackendError
from ....sim.facts.backend import Backend, Timing, Usage, backend
from ....sim.facts.csr import Csr
from ....sim.facts.ops import Kind, Ops, require
from ....sim.facts.signature import parse_signature
from ....sim.facts.splits import SPLIT, CollectiveName, Splits, parse_collective_name
from ....sim.facts.system import Router, System
from ....sim.units import Ratio, Seconds
from . import nccl
from .algorithms import ALGORITHMS
from .choice import PinnedAlgorithms, first_minimum
from .collective_plan import CollectivePlan
from .group_shapes import GroupShapes
from .library import Buffers, CoreCosts, InSwitch, NetworkMessages, Protocol, Sends
from .load import (
    SEND,
    AlgorithmLoad,
    Members,
    compute_half_send_load,
    compute_load,
    compute_message_loads,
    fills_nodes_evenly,
)
from .protocols import MOVED_BY_SENDS, Floats, LastPieceCopy, StepCosts, SwitchRounds, step_costs
from .steps import FROM_SWITCH, TO_SWITCH, Algorithm
from .timing_builder import Cores, CoreUse, TimingBuilder

FIDELITIES = ("alpha-beta", "flow")
CHOICES = ("quickest", "nccl")
MOST_TABLES = 4  # number of tables whose group shapes are cached
SENDS = ("send", f"send{TO_SWITCH}", f"send{FROM_SWITCH}")
_NO_CORES = np.empty((1, 0), np.int32)
RENAMED = {
    "launch": "simple.launch",
    "step": "simple.step",
    "efficiency": "simple.efficiency",
    "network_step": "simple.network.step",
    "network_efficiency": "simple.network.efficiency",
    "launch_ll128": "ll128.launch",
    "step_ll128": "ll128.step",
    "efficiency_ll128": "ll128.efficiency",
    "network_step_ll128": "ll128.network.step",
    "network_efficiency_ll128": "ll128.network.efficiency",
    "launch_ll": "ll.launch",
    "step_ll": "ll.step",
    "efficiency_ll": "ll.efficiency",
    "network_step_ll": "ll.network.step",
    "network_efficiency_ll": "ll.network.efficiency",
    "in_switch_efficiency": "in_switch.efficiency",
    "in_switch_launch": "in_switch.launch",
    "in_switch_channels": "in_switch.channels",
    "in_switch_round": "in_switch.round",
    "network_eager": "network.eager_limit",
    "network_fetch": "network.rendezvous",
    "network_pace": "network.pace",
    "network_copied": "network.copied",
    "network_copy_rate": "network.copy_rate",
    "copying": "buffers.copying",
    "segment": "buffers.segment",
    "send_launch": "sends.launch",
    "send_efficiency": "sends.efficiency",
    "send_lateness": "sends.lateness",
    "send_copying": "sends.copying",
    "send_launch_ll": "sends.ll.launch",
    "send_rate_ll": "sends.ll.rate",
    "own_part": "sends.own_part",
    "piece": "sends.piece",
    "low_latency_launch": "sends.low_latency.launch",
    "low_latency_efficiency": "sends.low_latency.efficiency",
    "dispatch": "cores.dispatch",
    "core_step": "cores.step",
    "core_rate": "cores.rate",
    "core_share": "cores.share",
}
"""Names of settings in release 0.1, and where they are now."""


@backend("fabric")
class Fabric(Backend):
    """Network between the GPUs, with the communication library that uses it.

    Parameters
    ----------
    fidelity : str
        ``flow``: transfers share link bandwidth with all other transfers; ``alpha-beta``: each
        transfer takes the time it would take alone.
    algorithms : str
        Algorithms that the library has, such as ``"ring, chain-tree"``; "" for all known ones.
    choice : str
        How the algorithm and protocol are chosen. ``quickest``: the quickest of all; ``nccl``: as
        NCCL's own tuning tables choose, among the algorithms that NCCL has.
    algorithm : str
        Pinned algorithm: ``ring``, ``ring/ll128``, or ``all-reduce=tree/ll, all-gather=ring``; ""
        for automatic choice.
    simple : Protocol
        Protocol for large messages.
    ll128 : Protocol
        Protocol with flags in every 128 bytes: starts faster, reaches less of the line rate.
    ll : Protocol
        Low-latency protocol with a flag for every 4 bytes of data.
    in_switch : InSwitch
        Reduction in the switch (NVLS).
    sends : Sends
        Costs of collectives made of grouped sends: all-to-all, scatter, gather.
    buffers : Buffers
        Library buffers through which GPUs forward data.
    network : NetworkMessages
        Costs of messages between machines.
    cores : CoreCosts
        Use of CPU cores or GPU multiprocessors by collectives.

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
    >>> timing = fabric.timing(ops.with_placement(system, 12, Csr.of([[0, 1, 2, 3]])))
    >>> round(float(timing.fixed[0]), 9), timing.work.tolist(), timing.usage.weight.tolist()
    (6e-06, [1000000000.0], [1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5])
    >>> timing.source[0]
    'model:fabric flow launch=0 s efficiency=1: 1 all-reduce ring/simple'

    References
    ----------
    See ``algorithms.py``; the α-β model is Hockney 1994, doi:10.1016/S0167-8191(06)80021-9.
    """

    uniform = True
    renamed_settings: ClassVar[Mapping[str, str]] = RENAMED
    same_timing_per_shape: ClassVar[bool] = True
    """True if groups of one shape (``group_shapes.py``) have equal timing. In a subclass that does
    not set it, each group is timed separately."""

    def __init_subclass__(cls, **more: Any) -> None:
        """Reset ``same_timing_per_shape`` to False for a subclass that does not set it itself."""
        super().__init_subclass__(**more)
        cls.same_timing_per_shape = cls.__dict__.get("same_timing_per_shape", False)

    def __init__(
        self,
        *,
        fidelity: str = "flow",
        algorithms: str = "",
        choice: str = "quickest",
        algorithm: str = "",
        simple: Protocol = Protocol(),
        ll128: Protocol = Protocol(),
        ll: Protocol = Protocol(),
        in_switch: InSwitch = InSwitch(),
        sends: Sends = Sends(),
        buffers: Buffers = Buffers(),
        network: NetworkMessages = NetworkMessages(),
        cores: CoreCosts = CoreCosts(),
    ):
        _check_known("fidelity", fidelity, FIDELITIES)
        names = tuple(dict.fromkeys(a for named in ALGORITHMS.values() for a in named))
        self.algorithms = tuple(a.strip() for a in algorithms.split(",") if a.strip()) or names
        for name in self.algorithms:
            _check_known("algorithm", name, names)
        _check_known("choice", choice, CHOICES)
        _check_core_share(cores.share)
        self.fidelity, self.choice = fidelity, choice
        self.pinned = PinnedAlgorithms.read(algorithm)
        self.protocols = step_costs(simple, ll128=ll128, ll=ll)
        self.of_sends = _costs_of_sends(sends, simple, ll) or self.protocols
        self.in_switch, self.sends, self.buffers = in_switch, sends, buffers
        self.network, self.cores = network, cores
        moves = self.protocols["simple"]
        self.within_switch = moves
        if in_switch.efficiency is not None:
            start = moves.launch if in_switch.launch is None else in_switch.launch
            self.within_switch = moves._replace(launch=start, efficiency=in_switch.efficiency)
        self.source = (
            f"model:fabric {fidelity} launch={moves.launch:.4g} s efficiency={moves.efficiency:.3g}"
        )
        self._ways: dict[tuple[str, Members, Router], list[CollectivePlan]] = {}
        self._shapes: dict[tuple[bytes, bytes], GroupShapes] = {}
        self._opened: System | None = None
        self._cores: tuple[System, NDArray[np.int32]] | None = None

    def open(self, system: System) -> None:
        """Bind the backend to a system, and clear cached results of another system."""
        if system is not self._opened:  # a new cache, since a copy may be used with another system
            self._ways, self._shapes, self._opened = {}, {}, system

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Timing of sends, receives and collectives; a receive takes no time of its own."""
        if ops.at is None:
            raise BackendError("fabric: the op is not placed on a machine; place the graph first")
        system, members = ops.at.system, ops.at.members
        shapes = self._shapes_of(members, system, self.same_timing_per_shape)
        builder = TimingBuilder(len(ops), shapes)
        for name, rows in _rows_by_shape(ops, shapes.shape):
            first = int(shapes.first[shapes.shape[rows[0]]])
            if name == "send":
                alike = rows if self.fidelity == "flow" else shapes.first[shapes.shape[rows]]
                self._fill_sends(rows, alike, ops, builder)
                first = int(rows[np.argmax(builder.fixed[rows])])
            else:
                group = tuple(members[first].tolist())
                self._fill_group(name, group, rows, ops, builder)
            if np.isinf(builder.fixed[rows]).any():
                raise _never_ends_error(name, tuple(members[first].tolist()), system)
        picks = ", ".join(f"{n} {what}" for what, n in builder.choice_counts().most_common(4))
        source = f"{self.source}: {picks}" if picks else self.source
        return Timing.of(
            builder.fixed, builder.work, builder.usage(), builder.limit(), source=source
        )

    def _shapes_of(self, members: Csr, system: System, compared: bool) -> GroupShapes:
        """Shapes of the groups in a table; recent results are cached, since runs repeat them."""
        if system is not self._opened:
            return GroupShapes.of(members, system, compared)  # routes can change in a run
        key = members.indptr.tobytes(), members.values.tobytes()
        if key not in self._shapes:
            if len(self._shapes) >= MOST_TABLES:
                self._shapes = {}
            self._shapes[key] = GroupShapes.of(members, system, compared)
        return self._shapes[key]

    def candidate_plans(
        self, collective: str, members: Members, system: System
    ) -> list[CollectivePlan]:
        """Candidate plans of a collective for a group: every usable algorithm with every protocol.

        Raises
        ------
        BackendError
            The collective is unknown, or no algorithm supports it for this group or for the unequal
            splits in its name (``sim/facts/splits.py``).
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
            return [self._direct_write_plan(kernel, splits, members, system)]
        together = len(np.unique(system.machine_numbers[list(members)])) == 1
        plans, there = [], []
        for a in ALGORITHMS[collective].values():
            possible = a.usable(len(members)) and (a.uneven or splits is None)
            # Ranks of one GPU have no switch between them.
            apart = together and len(set(members)) == len(members)
            if a.in_switch and (self.in_switch.efficiency is None or not apart):
                possible = False
            if a.nested and not fills_nodes_evenly(members, system):
                possible = False
            there += [a.name] * possible
            if possible and a.name in self.algorithms and self.pinned.allows(collective, a.name):
                plans += self.plans_for_load(self.algorithm_load(a.split(splits), members, system))
        if not plans:
            pinned = self.pinned.text(collective)
            what = f"no algorithm of {list(self.algorithms)} supports"
            if pinned:
                what = f"the pinned algorithm {pinned!r} does not support"
            parts = "" if splits is None else " with unequal splits"
            raise BackendError(
                f"fabric: {what} {collective}{parts} for {len(members)} members; "
                f"{'pin' if pinned else 'add'} one of {there}"
            )
        return plans

    def _direct_write_plan(
        self, kernel: str, splits: Splits | None, members: Members, system: System
    ) -> CollectivePlan:
        """Plan of a low-latency all-to-all, in which members write into each other's memory."""
        direct = self.sends.low_latency
        if direct.launch is None:
            raise BackendError(
                f"fabric: the library has no {kernel} all-to-all; write "
                "workload.execution.experts.exchange: normal, or use a library that sets "
                "sends.low_latency.launch, such as nccl-nvlink4"
            )
        load = self.algorithm_load(ALGORITHMS[SPLIT]["grouped"].split(splits), members, system)
        costs = StepCosts(direct.launch, 0.0, direct.efficiency, 0.0, direct.efficiency)
        return CollectivePlan(load, kernel, costs, self.cores.dispatch + direct.launch)

    def algorithm_load(
        self, algorithm: Algorithm, members: Members, system: System
    ) -> AlgorithmLoad:
        """Load of an algorithm on the links between these members."""
        return compute_load(algorithm, members, system)

    def plans_for_load(self, load: AlgorithmLoad) -> list[CollectivePlan]:
        """Plans of one algorithm with every protocol; an in-switch reduction has only one."""
        collective = load.algorithm.collective
        used = self.of_sends if collective in MOVED_BY_SENDS else self.protocols
        if load.algorithm.in_switch:
            used = {"simple": self.within_switch}
        begun = self.cores.dispatch + self._last_start(load)
        return [
            self._protocol_plan(load, name, begun + p.launch, p)
            for name, p in used.items()
            if self.pinned.allows(collective, load.algorithm.name, name)
        ]

    def _protocol_plan(
        self, load: AlgorithmLoad, name: str, launch: Seconds, step_costs: StepCosts
    ) -> CollectivePlan:
        rounds = filling = None
        segment = (
            None if load.algorithm.in_switch or load.algorithm is SEND else self.buffers.segment
        )
        channels, piece, copying = self.in_switch.channels, self.sends.piece, self.sends.copying
        if load.algorithm.in_switch and channels is not None:
            rounds = SwitchRounds(channels * load.members, self.in_switch.round)
        if load.algorithm.collective in MOVED_BY_SENDS and piece is not None:
            share = self.buffers.copying if copying is None else copying
            filling = LastPieceCopy(piece / load.imbalance, share)
        network = self.network if load.network_steps else None
        paced = load.algorithm.passes_on and name == "simple" and self.network.has_min_step
        copied = self._last_part_cost(load) + self._own_part_cost(load)
        return CollectivePlan(
            load, name, step_costs, launch, copied, rounds, filling, segment, network, paced
        )

    def _last_part_cost(self, load: AlgorithmLoad) -> float:
        """Extra time to copy a member's last part, relative to the time to send its bytes."""
        copying = self.buffers.copying
        if not (copying and load.algorithm.passes_on):
            return 0.0
        n = load.members
        return copying * load.algorithm.last_share_received(n) / load.algorithm.volume(n)

    def _last_start(self, load: AlgorithmLoad) -> Seconds:
        """Mean delay in s until the last of the members starts its sends."""
        if not self.sends.lateness or load.algorithm.collective not in MOVED_BY_SENDS:
            return 0.0
        return self.sends.lateness * float(np.sum(1 / np.arange(1, load.members + 1)))

    def _own_part_cost(self, load: AlgorithmLoad) -> float:
        """Extra time to copy a member's part to itself, relative to the time to send to others."""
        if load.algorithm.collective not in MOVED_BY_SENDS or not load.steps:
            return 0.0
        splits, n = load.algorithm.splits, load.members
        own = 1 / n if splits is None else splits.own
        return self.sends.own_part * own / ((n - 1) / n * load.imbalance)

    def _fill_group(
        self,
        name: str,
        members: Members,
        rows: NDArray[np.int64],
        ops: Ops,
        builder: TimingBuilder,
    ) -> None:
        """Fill in the timing of collectives whose groups have the same shape.

        The best plan is computed for the first group only.
        """
        if name == "recv" or (name not in SENDS and len(members) < 2):
            return
        assert ops.at is not None  # noqa: S101
        system = ops.at.system
        size = _sizes_of_rows(name, ops, rows)
        candidates = (
            [self._send_plan(name, members, system)]
            if name in SENDS
            else self.candidate_plans(name, members, system)
        )
        seconds = np.array([self.seconds_alone(name, w, members, size, system) for w in candidates])
        best = self._best(name, candidates, seconds, size)
        cores = None if name in SENDS else self._member_cores(members, rows, ops)
        for k in np.unique(best).tolist():
            selected, plan = best == k, candidates[k]
            core_use = self._core_use(plan, size[selected], seconds[k, selected], cores, selected)
            if name not in SENDS:
                builder.record_choice(
                    f"{plan.load.algorithm.collective} {plan.name}", rows, selected, k
                )
            if not plan.load.steps:  # every member keeps all its data
                builder.add(
                    rows[selected], plan, plan.start(size[selected]), np.zeros(selected.sum())
                )
            elif self.fidelity == "flow" and (self.holds_links(name) or cores is not None):
                builder.hold_links(rows[selected], plan, seconds[k, selected], core_use)
            elif self.fidelity == "flow":
                builder.add(rows[selected], plan, plan.start(size[selected]), size[selected])
            elif cores is not None:
                builder.hold_cores(rows[selected], seconds[k, selected], core_use)
            else:
                builder.add(rows[selected], plan, seconds[k, selected], np.zeros(selected.sum()))

    def _fill_sends(
        self, rows: NDArray[np.int64], alike: NDArray[np.int64], ops: Ops, builder: TimingBuilder
    ) -> None:
        """Fill in the timing of sends: each is one step of the simple protocol.

        Parameters
        ----------
        alike : (rows,) for each row, index of a row with the same load
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
        fixed += loads.across[pair] * self.network.rendezvous_seconds(size)
        if self.fidelity == "flow":
            indptr = np.searchsorted(loads.message, np.arange(len(pairs) + 1))
            uses = Csr(indptr, np.arange(len(weight), dtype=np.int32)).take(pair)
            each = Usage(uses.indptr, loads.parts.component[uses.values], weight[uses.values])
            builder.add_rows_with_own_usage(rows, fixed, size, limit[pair], each)
            return
        beta = 1 / limit
        with np.errstate(divide="ignore"):
            np.maximum.at(beta, loads.message, weight / loads.parts.rate)
        transfer = np.multiply(size, beta[pair], where=size > 0, out=np.zeros(len(size)))
        builder.add_fixed(rows, fixed + transfer)

    def seconds(self, collective: str, members: Members, size: Floats, system: System) -> Floats:
        """Time of a collective for each size, shape (n,), in s, on an otherwise idle system."""
        candidates = self.plan_choices(collective, members, size, system)
        return np.asarray(sum(alone * chosen for _, alone, chosen in candidates))

    def plan_choices(
        self, collective: str, members: Members, size: Floats, system: System
    ) -> list[tuple[CollectivePlan, Floats, Floats]]:
        """Every candidate plan, with its time and whether it is chosen, for each size.

        Returns
        -------
        list of (plan, (n,) time in s when nothing else runs, (n,) 1 where the plan is chosen)
        """
        candidates = self.candidate_plans(collective, members, system)
        alone = np.array(
            [self.seconds_alone(collective, w, members, size, system) for w in candidates]
        )
        best = self._best(collective, candidates, alone, size)
        return [(w, alone[k], (best == k).astype(float)) for k, w in enumerate(candidates)]

    def holds_links(self, name: str) -> bool:
        """True if a collective occupies its links for its complete duration."""
        return False

    def seconds_alone(
        self, name: str, plan: CollectivePlan, members: Members, size: Floats, system: System
    ) -> Floats:
        """Time of sends or collectives for each size, in s, when nothing else runs."""
        return plan.seconds_alone(size)

    def _best(
        self,
        name: str,
        candidates: list[CollectivePlan],
        seconds: Floats,
        size: Floats,
    ) -> NDArray[np.int64]:
        """Index of the chosen plan for each size, shape (n,)."""
        if self.choice == "nccl" and name not in SENDS and len(candidates) > 1:
            told = nccl.estimates(candidates, size)
            if np.isfinite(told).any():
                return first_minimum(told)
        return first_minimum(seconds)

    def scaled_core_use(self, factor: float) -> Fabric:
        """Copy of the fabric whose collectives use ``factor`` times as much of their cores.

        >>> Fabric(cores=CoreCosts(rate=1e9, share=0.5)).scaled_core_use(1.5).cores.share
        0.75
        """
        other = copy(self)
        other.cores = self.cores.scaled_core_use(factor)
        return other

    def _member_cores(self, first: Members, rows: NDArray[np.int64], ops: Ops) -> Cores | None:
        """Cores of the members of groups that have the same shape, as an array (rows, members).

        None unless every member has a core that it shares with other ops.

        Parameters
        ----------
        first : members of the first group
        rows : rows of ``ops`` that contain the collectives of these groups
        """
        assert ops.at is not None  # noqa: S101
        system = ops.at.system
        if self.cores.rate is None or system.part(first[0], "core") < 0:
            return None
        members = ops.at.members.take(rows)
        cores = self._cores_of(system)[members.values].reshape(len(rows), -1)
        return None if np.any(cores < 0) else cores

    def _cores_of(self, system: System) -> NDArray[np.int32]:
        """Index of the shared core of each GPU, shape (components,); -1 for other components."""
        if self._cores is None or self._cores[0] is not system:
            found = np.full(len(system.components), -1, np.int32)
            for gpu in (system.number(name) for name in system.gpus):
                found[gpu] = system.part(gpu, "core")
            self._cores = system, found
        return self._cores[1]

    def _core_use(
        self,
        plan: CollectivePlan,
        size: Floats,
        alone: Floats,
        cores: Cores | None,
        selected: NDArray[np.bool_],
    ) -> CoreUse:
        """Use of the members' cores by the selected rows, given the time of each row alone."""
        if cores is None or not plan.load.steps:
            return CoreUse(_NO_CORES, np.zeros(len(size)), np.ones(len(size)))
        share = self._core_seconds(plan, size) / alone
        pace = np.ones(len(size))
        if self.cores.share is not None:
            pace = np.where(share > 0, np.minimum(share / self.cores.share, 1.0), 1.0)
        return CoreUse(cores[selected], share, pace)

    def _core_seconds(self, plan: CollectivePlan, size: Floats) -> Floats:
        """Work on each member's core, in s, for each size."""
        most = max(plan.load.uses.values(), default=0.0)
        bytes_take = 0.0 if self.cores.rate is None else most / self.cores.rate
        return np.asarray(plan.load.steps * self.cores.step + size * bytes_take)

    def _send_plan(self, name: str, members: Members, system: System) -> CollectivePlan:
        """Plan of a send between a member and the switch, on one side of the switch."""
        once = compute_half_send_load(members[0], members[-1], name.endswith(TO_SWITCH), system)
        return self._protocol_plan(once, "simple", 0.0, self.within_switch)


def _check_known(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise BackendError(f"fabric: {what} {value!r} is unknown; take one of {list(allowed)}")


def _check_core_share(share: Ratio | None) -> None:
    if share is not None and not 0 < share <= 1:
        raise BackendError(
            f"fabric: cores.share is {share:g}; write more than 0 and at most 1, or leave "
            "cores.rate out so that collectives use no core"
        )


def _costs_of_sends(sends: Sends, simple: Protocol, ll: Protocol) -> dict[str, StepCosts]:
    """Step costs of grouped sends by protocol; empty if they are those of other collectives."""
    if sends.launch is None:
        return {}
    efficiency = sends.efficiency or simple.efficiency
    own = replace(simple, launch=sends.launch, efficiency=efficiency)
    found = step_costs(own, ll=replace(ll, launch=sends.ll.launch))
    if sends.ll.rate is not None and "ll" in found:
        found["ll"] = found["ll"]._replace(pair_rate=sends.ll.rate)
    return found


def _read_name(name: str, members: int) -> CollectiveName:
    try:
        return parse_collective_name(name, members)
    except ValueError as error:
        what = name.partition(" ")[0]
        raise BackendError(f"fabric: {what} of {members} members: {error}") from error


def _collective_names(ops: Ops) -> tuple[list[str], NDArray[np.int64]]:
    """Distinct names of collectives, ``send`` and ``recv``, and the index of each row's name."""
    parsed = [parse_signature(s).name for s in ops.signatures]
    sides = [next((f"send{e}" for e in (TO_SWITCH, FROM_SWITCH) if p.endswith(e)), "send")
             for p in parsed]  # fmt: skip
    names = [*parsed, "unknown", *sides, "send", "recv"]
    each = len(parsed) + 1
    said = np.where(ops.signature >= 0, ops.signature, each - 1)
    which = np.where(ops.kind == Kind.SEND, each + said, said)
    return names, np.where(ops.kind == Kind.RECV, 2 * each, which)


def _rows_by_shape(ops: Ops, shape: NDArray[np.int64]) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Collectives with the same name and the same group shape: the name, and their rows.

    Entries are in the order of their first row. All sends form one entry, because the loads of all
    pairs are computed at once.
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


def _never_ends_error(name: str, members: Members, system: System) -> BackendError:
    """Error for a collective that never ends because it crosses a component without a rate."""
    around = zip(members, (*members[1:], members[0]), strict=True)
    on = {c for a, b in around if a != b for r in system.routes(a, b) for c in r.components}
    stuck = ", ".join(p.name for p in map(system.components.__getitem__, sorted(on)) if p.rate == 0)
    return BackendError(
        f"fabric: {name.partition(' ')[0]} never ends: it crosses {stuck or 'a part'}, which is "
        "down; leave it up, slow it down instead, or let other ranks take part"
    )
