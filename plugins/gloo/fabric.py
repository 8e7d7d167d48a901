"""Backend ``gloo``: all-reduces simulated message by message, all other ops as in ``fabric``."""

from __future__ import annotations

import numpy as np

from ...models.network.collective.collective_plan import CollectivePlan
from ...models.network.collective.collectives import Fabric
from ...models.network.collective.library import CoreCosts, Protocol
from ...models.network.collective.load import Members, hop_latency, routes
from ...models.network.collective.protocols import Floats
from ...sim.errors import BackendError
from ...sim.facts.backend import backend
from ...sim.facts.system import System
from ...sim.units import Bytes, Seconds
from .messages import Lan, all_reduce_end_times

OTHERS = "ring, pairwise, chain, linear, dissemination"


@backend("gloo")
class Gloo(Fabric):
    """Fabric backend for ranks behind one port each, with the all-reduce of gloo over TCP.

    An all-reduce takes as long as its messages take when all ranks call it at the same time and
    nothing else runs. It occupies its links for that time; two concurrent all-reduces share them.
    Port rates are line rates, including headers. Other collectives and sends are those of the
    ``fabric`` backend.

    Parameters
    ----------
    message : Seconds
        Processor time to handle one message, in s.
    processors : int
        Number of processors that all ranks share; 0 means one processor per rank.
    fidelity, algorithms : str
        Fidelity, and algorithms of other collectives, as in ``fabric``.
    simple : Protocol
        Costs of the library's protocol (start-up, steps, efficiency) for collectives other than
        all-reduce.
    cores : CoreCosts
        Processors that an all-reduce occupies, as in ``fabric``.

    Examples
    --------
    >>> from ...sim.facts.csr import Csr
    >>> from ...sim.facts.ops import Kind, Ops
    >>> from ...models.network.part.link import Link
    >>> from ...models.network.part.switch import Switch, star
    >>> port = Switch(bandwidth=1.25e9, latency=5e-6, ports=4)
    >>> system = star(4, Link(bandwidth=1e12, latency=0), port)
    >>> ops = Ops.of(kind=Kind.COLLECTIVE, bytes=[2**20], signature=0,
    ...     signatures=("collective:all-reduce fp32[262144]",))
    >>> timing = Gloo(message=2e-6).timing(ops.with_placement(system, 12, Csr.of([[0, 1, 2, 3]])))
    >>> round(float(timing.work[0]) * 1e-9, 6), timing.source[0].partition(": ")[0]
    (0.001383, 'model:gloo message=2e-06 s')
    """

    same_timing_per_shape = True
    answers_part = "library"

    def __init__(
        self,
        *,
        message: Seconds,
        processors: int = 0,
        fidelity: str = "flow",
        algorithms: str = OTHERS,
        simple: Protocol = Protocol(),
        cores: CoreCosts = CoreCosts(),
    ):
        super().__init__(fidelity=fidelity, algorithms=algorithms, simple=simple, cores=cores)
        self.message, self.processors = message, processors
        self.source = f"model:gloo message={message:.4g} s"
        self._played: dict[tuple[Members, Bytes], Seconds] = {}

    def open(self, system: System) -> None:
        """Bind to a system; cached results for another system are dropped."""
        super().open(system)
        self._played = {}

    def holds_links(self, name: str) -> bool:
        """True if a collective occupies its links for its duration: only an all-reduce does."""
        return name == "all-reduce"

    def seconds_alone(
        self, name: str, plan: CollectivePlan, members: Members, size: Floats, system: System
    ) -> Floats:
        """Durations in seconds of collectives of the given sizes when nothing else runs."""
        if name != "all-reduce":
            return super().seconds_alone(name, plan, members, size, system)
        return np.array([self._all_reduce(members, s, system) for s in size.tolist()])

    def _all_reduce(self, members: Members, size: Bytes, system: System) -> Seconds:
        key = members, size
        found = self._played.get(key)
        if found is None:
            lan = self._lan(members, system)
            at_once = [[0.0] for _ in members]
            found = self._played[key] = max(
                row[0] for row in all_reduce_end_times(lan, size, at_once)
            )
        return found

    def _lan(self, members: Members, system: System) -> Lan:
        """Simulated network with the ports of the given members.

        Raises
        ------
        BackendError
            The members do not have one port each, or the ports are not equal.
        """
        pairs = [(members[k - 1], m) for k, m in enumerate(members)]
        crossed = [tuple(c for r in routes(a, b, system) for c in r.components) for a, b in pairs]
        ports = {(min(system.components[c].rate or 0.0 for c in row), hop_latency(a, b, system))
                 for (a, b), row in zip(pairs, crossed, strict=True)}  # fmt: skip
        every = [c for row in crossed for c in row]
        if len(ports) > 1 or len(set(every)) < len(every):
            raise BackendError(
                f"gloo: {len(members)} members share a port or have unequal ports; give each rank "
                "its own port of the same rate, or use backend 'fabric'"
            )
        ((rate, delay),) = ports
        return Lan(len(members), rate, delay, self.message, self.processors)
