"""Host models: CPU time of dispatching, launching and data loading."""

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
    """CPU cores of a machine: recorded durations, scaled by the relative speed of a thread.

    Parameters
    ----------
    speed : Ratio
        Speed of one thread relative to the host of the recording; 2 halves every duration.
    dispatch : Seconds or None
        Duration of an op without a recorded duration, such as an inserted launch; None makes it an
        error.
    operator : Seconds or None
        Host time to dispatch one op of a described step, including Python and libraries; None makes
        it an error.
    exchange : Seconds or None
        Host time to dispatch a collective or message of a described step. Default: that of
        ``operator``.

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
        """Host with dispatch costs only; default costs apply if they were not measured here.

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
        """Mask of ops with a recorded duration or a dispatch cost, shape (n,)."""
        known: NDArray[np.bool_] = ~np.isnan(ops.duration) | (self._dispatch_signatures(ops) != "")
        return known | (self.dispatch is not None)

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Recorded durations divided by speed; dispatch costs for ops without a recorded duration.

        Raises
        ------
        BackendError
            Some ops have neither a recorded duration nor a dispatch cost.
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
        """Signature of each op that dispatches another op, shape (n,); "" for other ops."""
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
