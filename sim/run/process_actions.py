"""What a process may do to components and ops of a running simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from operator import index
from typing import Any, SupportsIndex, cast

import numpy as np

from ..engine_api.capacity_ledger import Grant
from ..engine_api.interface import State, Submitted
from ..engine_api.lowering import rate_units, weight_units, why_weight_refused
from ..errors import SimulationError
from .observation import Observation
from .run_interface import AllocatorInterface, RunInterface


class ProcessActions(Observation):
    """ProcessActions on a run; each is applied in the machine's next turn.

    Parameters
    ----------
    run : RunInterface
    owner : int
        Who holds amounts of capacities, unless said otherwise.
    who : str
        The process, in messages.
    touches : globs of component names, or None
        What it may alter; None for everything.
    """

    def __init__(
        self, run: RunInterface, owner: int, who: str = "", touches: Sequence[str] | None = None
    ):
        super().__init__(run)
        self._owner, self._who, self._touches = owner, who, touches

    def acquire(self, name: str, amount: int, owner: int | None = None) -> Grant:
        """Request for an amount of a capacity: an event that fires when it is granted.

        ``with sim.acquire("node0.kv", 8) as grant: yield grant`` gives it back at the end of the
        block, ``grant.release()`` at any other time.  A grant that nobody waits for any more (its
        process was interrupted, or ``grant | sim.wait(1.0)`` took too long) leaves the line.

        Parameters
        ----------
        amount : in the component's unit
        owner : whose it is, see :meth:`release_all`; unless said the job, which gives it back at
            its end
        """
        return self._machine.acquire(
            self._may_touch(name),
            _integer_amount(name, amount),
            self._owner if owner is None else owner,
        )

    def take(self, name: str, amount: int, owner: int | None = None) -> bool:
        """Whether an amount was free, and nobody waiting: then it is held from now on."""
        return self._machine.take(
            self._may_touch(name),
            _integer_amount(name, amount),
            self._owner if owner is None else owner,
        )

    def release(self, name: str, amount: int, owner: int | None = None) -> None:
        """Give an amount of a capacity back; not more than its owner holds."""
        self._machine.release(
            self._may_touch(name),
            _integer_amount(name, amount),
            self._owner if owner is None else owner,
        )

    def release_all(self, owner: int) -> None:
        """Give back all that an owner acquired and took, and withdraw its requests."""
        self._check_may_act("release what an owner holds")
        self._machine.release_all(owner)

    def set_rate(self, name: str, rate: float) -> None:
        """Change a rate, in the component's unit a second; flows keep their progress."""
        c = self._may_touch(name)
        part = self._system.components[c]
        if part.rate is None:
            raise SimulationError("action", f"{name}: has no rate to set; fail() it instead")
        if not 0 <= rate <= part.top:
            raise SimulationError(
                "action",
                f"{name}: rate is {rate:g} {part.unit}/s; it must be between 0 and its max_rate "
                f"{part.top:g}",
            )
        units = rate_units(rate, self._run.scale[part.unit])
        self._machine.set_rate(c, units)
        self._run.rate_log.append((int(self.env.now), c, units))

    def fail(self, name: str) -> None:
        """Fail a component: ops that run on it, use it, or hold a slot of it stop; see ``lost``.

        Of a node (``node1``): on every component of it.
        """
        for c in self._components_named(name):
            self._machine.fail(c)

    def restore(self, name: str) -> None:
        """Restore a component, or all of a node: queues move again; stopped ops stay stopped."""
        for c in self._components_named(name):
            self._machine.restore(c)
        for allocator in self._run.allocators:
            cast(list[Any], self.settled().callbacks).append(allocator.serve)

    def register_allocator(self, allocator: AllocatorInterface) -> None:
        """Register an allocator that looks again whenever components are restored."""
        self._run.allocators.append(allocator)

    def _components_named(self, name: str) -> list[int]:
        """Components of a name: itself, or all of a node."""
        nodes = {c.node for c in self._system.components if c.node}
        is_node = name in nodes and name not in self._system.index
        names = self._system.select(node=name) if is_node else (name,)
        return [self._may_touch(n) for n in names]

    def route_around(self, names: Sequence[str]) -> None:
        """Lead data around some components from now on, as routing does that knows them to be down.

        Open sends and collectives whose way changes go on by the new one with what is left of
        them, and new ones take it.

        Raises
        ------
        GraphError
            One that nothing leads around.
        """
        down = {self._may_touch(name) for name in names}
        self._run.relocations.set_avoided(self._run.relocations.down | down)

    def route_over_again(self, names: Sequence[str]) -> None:
        """Lead data over components again that :meth:`route_around` named."""
        up = {self._may_touch(name) for name in names}
        self._run.relocations.set_avoided(self._run.relocations.down - up)

    def stop(self, op: int) -> None:
        """Take an op out of its queue, places and components."""
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
        """Let a stopped op, or several, queue again, here or elsewhere.

        Elsewhere the backend of that place is asked how long it takes, and the fabric about its
        route; with ``keep`` the share that is left of it is left there too.

        Parameters
        ----------
        keep : keep the progress; else from zero, asking an online backend again
        slots : components to queue for, one for each place; the same as before unless said
        usage : ``{component: weight}`` instead of what it uses
        instead : the GPU that stands in for another of its ranks; slots and routes follow
        """
        self._check_may_act("resume an op")
        if slots is not None and instead is not None:
            raise TypeError("resume() takes either slots or instead; leave one out")
        number = self._system.number
        to = None if slots is None else [number(name) for name in slots]
        gpus = None if instead is None else {number(a): number(b) for a, b in instead.items()}
        uses = (
            None
            if usage is None
            else {number(c): _fixed_point_weight(c, w) for c, w in usage.items()}
        )
        ops = [int(op)] if isinstance(op, SupportsIndex) else list(op)
        stays = to is None and gpus is None
        going = [] if stays else [one for one in ops if not self._is_over(one)]
        moved = self._run.relocations.move(going, to, gpus)
        for one in ops:
            where, there = moved.get(one, (None, None))
            self._machine.resume(one, keep, where, uses, there)

    def _is_over(self, op: int) -> bool:
        return self._machine.state(op) in (State.ENDED, State.CANCELLED)

    def cancel(self, what: int | Submitted) -> None:
        """Remove an op or a whole graph, with all that depends on it."""
        self._check_may_act("cancel an op")
        if isinstance(what, SupportsIndex):
            self._machine.cancel([int(what)])
        else:
            self._machine.cancel(range(what.first, what.first + what.count))

    def _check_may_act(self, what: str) -> None:
        """Refuse an action of a process that declared to touch nothing (``touches = ()``)."""
        if self._touches is not None and not len(self._touches):
            raise SimulationError(
                "action",
                f"{self._who}: tries to {what}, but declares touches = (); list there what it "
                f"alters",
            )

    def _may_touch(self, name: str) -> int:
        c = self._system.number(name)
        if self._touches is not None and not any(self._glob_fits(t, name) for t in self._touches):
            raise SimulationError(
                "action",
                f"{self._who}: alters {name}, which its touches do not include; add it there",
            )
        return c

    def _glob_fits(self, glob: str, name: str) -> bool:
        """Whether a glob fits a component; a name of one is no glob."""
        return glob == name or (glob not in self._system.index and fnmatchcase(name, glob))


def _fixed_point_weight(name: str, weight: float) -> int:
    """Weight of a use in 2^-40."""
    units = int(weight_units(np.array(weight)))
    if not units:
        raise SimulationError("action", why_weight_refused(name, weight))
    return units


def _integer_amount(name: str, amount: int) -> int:
    """Amount as an integer.

    Raises
    ------
    SimulationError
        It is none.
    """
    try:
        return index(amount)
    except TypeError:
        raise SimulationError(
            "action", f"{name}: amount is {amount!r}; give a whole number"
        ) from None
