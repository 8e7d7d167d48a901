"""Hosts: CPU time of dispatching, launching and data loading."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import BackendError
from ...sim.facts.backend import Backend, Timing, backend
from ...sim.facts.doubt import Doubt
from ...sim.facts.ops import Ops, require
from ...sim.units import Ratio, Seconds

OPERATOR, EXCHANGE = "host:operator", "host:exchange"  # signatures of dispatch ops
DISPATCHING = "dispatching"  # family of the error interval of dispatch costs of another machine


@backend("host")
class Host(Backend):
    """CPU cores of one machine: recorded durations scaled by relative speed.

    Parameters
    ----------
    speed : Ratio
        Of one thread, relative to the host of the recording; 2 halves every duration.
    dispatch : Seconds or None
        Duration of an op that was not recorded (a launch that a model inserted); None refuses it.
    operator : Seconds or None
        To dispatch an op of a described step, all that Python and its libraries do before the next
        in it; None refuses it.
    exchange : Seconds or None
        To dispatch a collective or a message of a described step; ``operator`` unless said.

    Examples
    --------
    >>> ops = Ops.of(kind=1, duration=[1e-5, float("nan")])
    >>> Host(speed=2.0, dispatch=4e-6).timing(ops).fixed.tolist()
    [5e-06, 4e-06]
    """

    uniform = True

    def __init__(
        self,
        *,
        speed: Ratio = 1.0,
        dispatch: Seconds | None = None,
        operator: Seconds | None = None,
        exchange: Seconds | None = None,
    ):
        self.speed, self.dispatch = speed, dispatch
        self.costs = {OPERATOR: operator, EXCHANGE: operator if exchange is None else exchange}
        self.doubt: Doubt | None = None
        cost = "recorded only" if dispatch is None else f"dispatch={dispatch:.4g} s"
        self.source = f"model:host speed={speed:g} {cost}"

    @classmethod
    def with_dispatch_costs(
        cls, operator: Seconds | None, exchange: Seconds | None, *, measured_here: bool
    ) -> Host:
        """Host of which only dispatching is known, and how long it takes elsewhere unless said.

        >>> ops = Ops.of(kind=1, signature=[0, 1], signatures=("host:operator", "host:exchange"))
        >>> host = Host.with_dispatch_costs(2e-5, None, measured_here=True)
        >>> host.timing(ops).fixed.tolist()
        [2e-05, 2e-05]
        """
        host = cls(operator=operator, exchange=exchange)
        costs = " ".join(f"{s.partition(':')[2]}={c:.4g} s" for s, c in host.costs.items() if c)
        host.source = f"model:host {costs or 'recorded only'}"
        host.doubt = None if measured_here else Doubt(DISPATCHING)
        return host

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """(n,) whether it was recorded, dispatches another op, or takes ``dispatch``."""
        known: NDArray[np.bool_] = ~np.isnan(ops.duration) | (self._dispatch_signatures(ops) != "")
        return known | (self.dispatch is not None)

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Recorded durations divided by speed; else what dispatching takes.

        Raises
        ------
        BackendError
            Ops of which nothing was recorded, and nobody says what dispatching them takes.
        """
        seconds = ops.duration / self.speed
        what = self._dispatch_signatures(ops)
        for signature, cost in self.costs.items():
            rows = what == signature
            if rows.any():
                seconds[rows] = self._known(cost)
        if self.dispatch is None:
            require(ops.take_with_placement(np.flatnonzero(what == "")), "duration")
        else:
            seconds = np.where(np.isnan(seconds), self.dispatch, seconds)
        return Timing.of(seconds, doubt=self.doubt if (what != "").any() else None)

    def _dispatch_signatures(self, ops: Ops) -> NDArray[np.str_]:
        """(n,) signature of each op that a host thread does to dispatch another; "" of others."""
        names = np.array([s if s in self.costs else "" for s in ops.signatures] + [""])
        return np.where(np.isnan(ops.duration), names[ops.signature], "")

    def _known(self, cost: Seconds | None) -> Seconds:
        if cost is None:
            raise BackendError(
                "host: the time of its thread to dispatch an operator is unknown; write "
                "cluster.node.host, for example {model: epyc-7742-dual} or {operator: 30 us}, or "
                "write workload.execution.hosts: ahead"
            )
        return cost
