"""Actions of a process on components and ops of a running simulation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, cast

import numpy as np

from ..argument import as_finite, as_integer, as_mapping, as_names, as_text, shown
from ..engine_api.capacity_ledger import Grant
from ..engine_api.interface import OVER, Submitted
from ..engine_api.lowering import rate_units, weight_units, why_weight_refused
from ..engine_api.simpy_adapter import GraphHandle
from ..errors import GraphError, SimulationError
from .observation import Observation
from .run_interface import AllocatorInterface, RunInterface
from .store_handle import StoreHandle


class ProcessActions(Observation):
    """Actions of a process on a run; each is applied in the engine's next turn.

    Parameters
    ----------
    run : Run in progress.
    owner : int
        Default owner of the capacity amounts that it acquires.
    who : str
        Name of the process, for error messages.
    touches : globs of component names, or None
        Components that the process may change; None for all.
    """

    def __init__(
        self, run: RunInterface, owner: int, who: str = "", touches: Sequence[str] | None = None
    ):
        super().__init__(run)
        self._owner, self._who, self._touches = owner, who, touches

    @property
    def who(self) -> str:
        """Name of the process, with that of its job."""
        return self._who

    def acquire(self, name: str, amount: int, owner: int | None = None) -> Grant:
        """Request an amount of a capacity; the returned event fires when it is granted.

        ``with sim.acquire("node0.kv", 8) as grant: yield grant`` releases the amount at the end of
        the block; ``grant.release()`` releases it at any other time. A grant that no process waits
        for any more leaves the queue, e.g. if the process was interrupted or ``grant |
        sim.wait(1.0)`` timed out.

        Parameters
        ----------
        amount : in the component's unit
        owner : number of the owner, see :meth:`release_all`; by default the job, which releases its
            amounts when it ends
        """
        return self._machine.acquire(
            self._may_touch(name), _integer_amount(name, amount), self._owner_number(owner)
        )

    def take(self, name: str, amount: int, owner: int | None = None) -> bool:
        """Acquire an amount of a capacity at once, without waiting; returns True on success.

        It fails if too little is free, or if anyone waits for the capacity.
        """
        return self._machine.take(
            self._may_touch(name), _integer_amount(name, amount), self._owner_number(owner)
        )

    def release(self, name: str, amount: int, owner: int | None = None) -> None:
        """Release an amount of a capacity, at most what its owner holds."""
        self._machine.release(
            self._may_touch(name), _integer_amount(name, amount), self._owner_number(owner)
        )

    def _owner_number(self, owner: int | None) -> int:
        """Number of an owner; by default the job's."""
        return self._owner if owner is None else as_integer("owner", owner, self._refuse)

    def store(self, name: str) -> StoreHandle:
        """Store of a component: its named, sized entries, to hold, release and observe.

        By default the job owns what the process holds, and releases it when it ends.
        """
        return StoreHandle(
            self._machine.stores, self._system.number(name), self._owner,
            lambda: self._may_touch(name),
        )  # fmt: skip

    def release_all(self, owner: int) -> None:
        """Release all amounts and entries that an owner holds, and withdraw its requests."""
        self._check_may_act("release what an owner holds")
        self._machine.release_all(as_integer("owner", owner, self._refuse))

    def set_rate(self, name: str, rate: float) -> None:
        """Change the rate of a component, in its unit per second; flows keep their progress."""
        c = self._may_touch(name)
        part = self._system.components[c]
        if part.rate is None:
            raise SimulationError("action", f"{name}: has no rate to set; fail() it instead")
        found = as_finite("rate", rate, lambda why: SimulationError("action", f"{name}: {why}"))
        if not 0 <= found <= part.top:
            raise SimulationError(
                "action",
                f"{name}: rate is {found:g} {part.unit}/s; it must be between 0 and its max_rate "
                f"{part.top:g}",
            )
        units = rate_units(found, self._run.scale[part.unit])
        self._machine.set_rate(c, units)
        self._run.rate_log.append((int(self.env.now), c, units))

    def fail(self, name: str) -> None:
        """Fail a component: ops that run on it, use it, or hold its slots stop; see ``lost``.

        The name of a machine (``node1``) fails all its components.
        """
        for c in self._components_named(name):
            self._machine.fail(c)

    def restore(self, name: str) -> None:
        """Restore a component, or all of a machine: queues move again; stopped ops stay stopped."""
        for c in self._components_named(name):
            self._machine.restore(c)
        for allocator in self._run.allocators:
            cast(list[Any], self.settled().callbacks).append(allocator.serve)

    def register_allocator(self, allocator: AllocatorInterface) -> None:
        """Register an allocator, to serve its requests again whenever components are restored."""
        self._run.allocators.append(allocator)

    def _components_named(self, name: str) -> list[int]:
        """Number of the component with a name, or numbers of all components of a machine."""
        as_text("name", name, self._refuse)
        if name not in self._system.index and name in self._machines:
            return [self._may_touch(n) for n in self._system.select(node=name)]
        return [self._may_touch(name)]

    @cached_property
    def _machines(self) -> frozenset[str]:
        """Names of the machines."""
        return frozenset(c.node for c in self._system.components if c.node)

    def route_around(self, names: Sequence[str]) -> None:
        """Route data around some components, like a routing protocol that detected a failure.

        Open sends and collectives whose route changes continue on the new route with their
        remaining work. New ones use it too.

        Raises
        ------
        GraphError
            No other route exists around a component.
        """
        down = {self._may_touch(name) for name in self._names(names)}
        self._run.relocations.set_avoided(self._run.relocations.down | down)

    def route_over_again(self, names: Sequence[str]) -> None:
        """Route data over components again that :meth:`route_around` avoided."""
        up = {self._may_touch(name) for name in self._names(names)}
        self._run.relocations.set_avoided(self._run.relocations.down - up)

    def stop(self, op: int) -> None:
        """Stop an op: remove it from its queue, slots and shared components."""
        self._check_may_act("stop an op")
        self._machine.stop(op)

    def resume(
        self,
        op: int | Sequence[int],
        keep: bool = True,
        slots: Sequence[str] | None = None,
        usage: Mapping[str, float] | None = None,
        instead: Mapping[str, str] | None = None,
    ) -> None:
        """Let one or several stopped ops queue again, on the same or on other components.

        On other components, their backends time the op, and the fabric its new route. With
        ``keep``, the remaining fraction of the op is kept.

        Parameters
        ----------
        keep : True to keep the progress; False to start again, with a new call of an online backend
        slots : component to queue for, one per member rank; by default the same as before
        usage : ``{component: weight}`` to use instead of its present usage
        instead : GPU that replaces each of the op's GPUs; slots and routes follow
        """
        self._check_may_act("resume an op")
        if slots is not None and instead is not None:
            raise TypeError("resume() takes either slots or instead; leave one out")
        if not isinstance(keep, bool | np.bool_):
            raise self._refuse(f"keep is {shown(keep)}; give True or False")
        number = self._system.number
        to = None if slots is None else [number(name) for name in self._names(slots, "slots")]
        gpus = uses = None
        if instead is not None:
            pairs = as_mapping(
                "instead", instead, self._refuse, "a GPU to the GPU that replaces it"
            )
            gpus = {number(a): number(b) for a, b in pairs.items()}
        if usage is not None:
            pairs = as_mapping("usage", usage, self._refuse, "a component to a weight")
            uses = {number(c): _fixed_point_weight(c, w) for c, w in pairs.items()}
        ops = self._op_ids(op)
        stays = to is None and gpus is None
        going = [] if stays else [one for one in ops if not self._is_over(one)]
        moved = self._run.relocations.move(going, to, gpus)
        for one in ops:
            where, there = moved.get(one, (None, None))
            self._machine.resume(one, keep, where, uses, there)

    def _op_ids(self, op: int | Sequence[int]) -> list[int]:
        """Ids of one or several ops."""
        refuse, last = self._unknown_op, self._machine.count - 1
        one = not isinstance(op, Iterable) or isinstance(op, str | bytes | Mapping)
        one = one or (isinstance(op, np.ndarray) and not op.ndim)
        given = [op] if one else list(op)  # type: ignore[arg-type]
        return [as_integer("op", one, refuse, 0, last) for one in given]

    def _unknown_op(self, why: str) -> GraphError:
        return GraphError("unknown op", f"{self._who}: {why}")

    def _is_over(self, op: int) -> bool:
        return self._machine.state(op) in OVER

    def cancel(self, what: int | Submitted) -> None:
        """Remove an op or all ops of a graph, with all ops that depend on them."""
        self._check_may_act("cancel an op")
        if isinstance(what, GraphHandle):
            self._machine.cancel(range(what.first, what.first + what.count))
            return
        most = self._machine.count - 1
        refuse = self._unknown_op
        self._machine.cancel([as_integer("what is cancelled", what, refuse, 0, most)])

    def _refuse(self, why: str) -> SimulationError:
        return SimulationError("action", f"{self._who}: {why}")

    def _names(self, given: Sequence[str], what: str = "names") -> tuple[str, ...]:
        return as_names(what, given, self._refuse)

    def _check_may_act(self, what: str) -> None:
        """Raise an error if the process declared that it only observes (``touches = ()``)."""
        if self._touches is not None and not len(self._touches):
            raise SimulationError(
                "action",
                f"{self._who}: tries to {what}, but declares touches = (); list there what it "
                f"alters",
            )

    def may_touch(self, name: str) -> bool:
        """True if the process may change a component."""
        globs = self._touches
        return globs is None or any(self._glob_fits(t, name) for t in globs)

    def _may_touch(self, name: str) -> int:
        c = self._system.number(name)
        if not self.may_touch(name):
            raise SimulationError(
                "action",
                f"{self._who}: alters {name}, which its touches do not include; add it there",
            )
        return c

    def _glob_fits(self, glob: str, name: str) -> bool:
        """True if a glob matches a component name; a glob that is a name matches only itself."""
        return glob == name or (glob not in self._system.index and fnmatchcase(name, glob))


def _fixed_point_weight(name: str, weight: float) -> int:
    """Weight of a usage in units of 2^-40."""
    found = as_finite(f"the weight on {name}", weight, lambda why: SimulationError("action", why))
    units = int(weight_units(np.array(found)))
    if not units:
        raise SimulationError("action", why_weight_refused(name, found))
    return units


def _integer_amount(name: str, amount: int) -> int:
    """Amount of a capacity as an integer.

    Raises
    ------
    SimulationError
        It is not an integer.
    """
    return as_integer("amount", amount, lambda why: SimulationError("action", f"{name}: {why}"))
