"""Description of a collective algorithm as steps: sender, receiver and size of each message.

The latency, the load on every link, the bytes of the busiest member and the sends of an expanded
collective all follow from the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import lcm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....sim.facts.splits import Splits

Members = NDArray[np.int64]

SWITCH = -1
"""Stands for the switch in place of a member."""

TO_SWITCH, FROM_SWITCH = " to-switch", " from-switch"
"""Suffixes of the name of a send that stays on one side of the switch: to it, or from it."""

EVERYONE = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "barrier")
FROM_FIRST = ("broadcast", "scatter")
TO_FIRST = ("reduce", "gather")


SEGMENTS = 16
"""Minimum number of segments of a pipelined algorithm."""


class Step(NamedTuple):
    """Messages that are sent together; a member's next step waits for what it receives in this one.

    Parameters
    ----------
    source, target : (messages,) member indices, or ``SWITCH``
        The latency of the step is that of its first message.
    parts : (messages,) or one number for all: size of each message, as a number of parts
    of : int
        Number of equal parts that the message size S of the collective is divided into.
    times : int
        Number of repetitions in a row. In each repetition, the receiver of the first message is the
        next sender on the latency path.
    """

    source: Members
    target: Members
    parts: Members | int
    of: int = 1
    times: int = 1


class Exchange(NamedTuple):
    """Exchange in which every member sends the same amount to every other member at once.

    Its load is computed without a list of the n^2 messages.

    Parameters
    ----------
    times : number of repetitions in a row
    whole : True if each message carries all data of its sender, False if it carries 1/n
    """

    times: int = 1
    whole: bool = False

    def part(self, n: int) -> float:
        """Size of each message, as a fraction of the collective's size."""
        return 1.0 if self.whole else 1 / n


class MemberFlows(NamedTuple):
    """Total data between members over all steps: one entry per pair.

    Amounts are fractions of the collective's size.
    """

    source: Members
    target: Members
    share: NDArray[np.float64]


Steps = Callable[..., Iterable[Step]]


@dataclass(frozen=True)
class Algorithm:
    """Algorithm of one collective of ``S`` bytes among ``n`` members.

    Parameters
    ----------
    collective, name : name of the collective, and of the algorithm
    make : function from n to the steps
    usable : function that is True if the algorithm works for n members
    pipelined : bool
        S is cut into segments that follow each other through the steps, so that all links work at
        the same time.
    in_switch : bool
        Needs a switch that reduces and multicasts.
    nested : bool
        Works across nodes only; ``make`` also takes the number of members per node.
    passes_on : bool
        Members forward what they receive in every step except the last one.
    uneven : bool
        Supports unequal splits; ``make`` also takes ``splits``.
    exchange : Exchange or None
        Set if, with equal splits, the algorithm is one step in which every member sends the same
        amount to every other member.
    splits : unequal splits that the steps are for; None for equal splits

    Examples
    --------
    >>> ring = Algorithm("shift", "once", lambda n: [shift(n, 1)])
    >>> ring.flows(3).target.tolist(), ring.latency_path(3), ring.volume(3)
    ([1, 2, 0], [(0, 1)], 1.0)
    """

    collective: str
    name: str
    make: Steps
    usable: Callable[[int], bool] = lambda n: n >= 2
    pipelined: bool = False
    in_switch: bool = False
    nested: bool = False
    passes_on: bool = False
    uneven: bool = False
    exchange: Exchange | None = None
    splits: Splits | None = None

    def split(self, splits: Splits | None) -> Algorithm:
        """Copy of the algorithm for unequal splits; the algorithm itself if ``splits`` is None."""
        return self if splits is None else replace(self, splits=splits)

    @property
    def is_exchange(self) -> bool:
        """True if every member sends the same amount to every other member, all at once."""
        return self.exchange is not None and self.splits is None

    def steps(self, *n: int) -> tuple[Step, ...]:
        """Steps for ``n`` members; a nested algorithm also takes the members per node."""
        return _steps(self.make, n, self.splits)

    def latency_path(self, *n: int) -> list[tuple[int, int]]:
        """Pairs (sender, receiver) on the critical path, whose latencies add up.

        A message through the switch counts as one from the first member to the last.
        """
        if self.exchange is not None and self.is_exchange:
            last = n[0] - 1
            return [(0, last) if k % 2 == 0 else (last, 0) for k in range(self.exchange.times)]
        if self.in_switch:
            return [(0, n[0] - 1) for step in self.steps(*n) for _ in range(step.times)]
        return [hop for step in self.steps(*n) for hop in _dependent_messages(step)]

    def latencies(self, *n: int) -> int:
        """Number of messages on the critical path."""
        return sum(step.times for step in self.steps(*n))

    def max_sends_per_step(self, *n: int) -> int:
        """Largest number of messages that one member sends in one step; the switch does not count.

        1 for a pipelined algorithm, which posts a segment while the previous one is in flight.

        Parameters
        ----------
        n : number of members; of a hierarchical algorithm, one number for each level
        """
        if self.pipelined:
            return 1
        if self.is_exchange:
            return n[0] - 1
        senders = (step.source[step.source != SWITCH] for step in self.steps(*n))
        return max((int(np.bincount(s).max(initial=1)) for s in senders), default=1)

    def flows(self, *n: int) -> MemberFlows:
        """Total flow between each pair of members, in the order in which pairs first send.

        Sums are computed in integer parts, so they are exact.
        """
        return _flows(self.make, n, self.splits)

    def volume(self, *n: int) -> float:
        """Bytes that the busiest member sends or receives, per byte of the collective."""
        source, target, share = self.flows(*n)
        out = np.bincount(source[source != SWITCH], share[source != SWITCH], n[0])
        into = np.bincount(target[target != SWITCH], share[target != SWITCH], n[0])
        return float(max(out.max(), into.max()))

    def last_share_received(self, *n: int) -> float:
        """Fraction of the data that a member receives in the last step; it sends nothing then."""
        if not self.passes_on:
            return 0.0
        last = self.steps(*n)[-1]
        parts = np.broadcast_to(last.parts, len(last.target))
        return float(np.bincount(last.target, parts).max() / last.of)

    def is_symmetric(self, *n: int) -> bool:
        """True if every member sends the same amount to every other one."""
        if self.nested or self.is_exchange:
            return self.is_exchange
        share = self.flows(*n).share
        return len(share) == n[0] * (n[0] - 1) and bool(np.all(share == share[0]))


@lru_cache(maxsize=8)
def _steps(make: Steps, n: tuple[int, ...], splits: Splits | None) -> tuple[Step, ...]:
    if splits is None:
        return tuple(make(*n))
    return tuple(step for step in make(*n, splits=splits) if len(step.source))


@lru_cache(maxsize=8)
def _flows(make: Steps, n: tuple[int, ...], splits: Splits | None) -> MemberFlows:
    steps = _steps(make, n, splits)
    if not steps:  # every member keeps all its data
        return MemberFlows(*(np.empty(0, np.int64),) * 2, np.empty(0))
    whole = lcm(*(step.of for step in steps))
    source = np.concatenate([step.source for step in steps])
    target = np.concatenate([step.target for step in steps])
    parts = np.concatenate(
        [np.broadcast_to(s.parts * (s.times * whole // s.of), len(s.source)) for s in steps]
    )
    key = source * (n[0] + 1) + target
    if len(steps) == 1 and _are_distinct(key):  # every pair once, in order
        return MemberFlows(source, target, parts / whole)
    _, first, pair = np.unique(key, return_index=True, return_inverse=True)
    total = np.zeros(len(first), np.int64)
    np.add.at(total, pair, parts)
    order = np.argsort(first)
    return MemberFlows(source[first[order]], target[first[order]], total[order] / whole)


def _are_distinct(keys: NDArray[np.int64]) -> bool:
    """True if no two keys are equal. Dense keys are counted, sparse ones sorted."""
    least = keys.min()
    if keys.max() - least < 2 * len(keys):
        return bool(np.bincount(keys - least).max() == 1)
    return bool(np.diff(np.sort(keys)).all())


def _dependent_messages(step: Step) -> Iterable[tuple[int, int]]:
    """(sender, receiver) of each dependent message of a step: one per repetition."""
    if step.times == 1:
        yield int(step.source[0]), int(step.target[0])
        return
    source, target = step.source.tolist(), step.target.tolist()
    sends = {member: i for i, member in reversed([*enumerate(source)])}  # its first message
    at = 0
    for _ in range(step.times):
        yield source[at], target[at]
        at = sends.get(target[at], 0)


ALGORITHMS: dict[str, dict[str, Algorithm]] = {}
"""Algorithms of each collective, by name."""


def algorithm(
    collective: str,
    name: str,
    *,
    usable: Callable[[int], bool] = lambda n: n >= 2,
    pipelined: bool = False,
    in_switch: bool = False,
    nested: bool = False,
    passes_on: bool = False,
    uneven: bool = False,
    exchange: Exchange | None = None,
) -> Callable[[Steps], Steps]:
    """Decorator that registers a step generator; the parameters are those of :class:`Algorithm`.

    Raises
    ------
    ValueError
        The collective has another algorithm of that name.

    Examples
    --------
    >>> @algorithm("shift", "once")
    ... def once(n: int) -> Iterable[Step]:
    ...     yield shift(n, 1)
    >>> ALGORITHMS.pop("shift")["once"].latencies(4)
    1
    """

    def register(make: Steps) -> Steps:
        made = Algorithm(
            collective,
            name,
            make,
            usable,
            pipelined,
            in_switch,
            nested,
            passes_on,
            uneven,
            exchange,
        )
        taken = ALGORITHMS.setdefault(collective, {}).setdefault(name, made)
        if taken.make.__qualname__ != make.__qualname__:
            raise ValueError(
                f"two algorithms of {collective} are named {name!r}; give one of them another name"
            )
        ALGORITHMS[collective][name] = made
        return make

    return register


def shift(n: int, by: int, parts: int = 1, of: int = 1, times: int = 1) -> Step:
    """Step in which every member sends to the member ``by`` positions ahead.

    >>> shift(4, 1).target.tolist()
    [1, 2, 3, 0]
    """
    here = np.arange(n)
    return Step(here, (here + by) % n, parts, of, times)


def split_step(step: Step, splits: Splits | None) -> Step:
    """Step with the message sizes of unequal splits; empty messages are removed.

    >>> split_step(shift(3, 1, of=3), Splits(np.array([[0, 2, 1], [1, 0, 0], [1, 1, 0]]))).parts
    array([6, 3])
    """
    if splits is None:
        return step
    n = len(splits.parts)
    parts = splits.parts.ravel()[step.source * n + step.target] * n
    if parts.all():
        return step._replace(parts=parts, of=splits.total)
    some = np.flatnonzero(parts)
    source, target = step.source[some], step.target[some]
    return step._replace(source=source, target=target, parts=parts[some], of=splits.total)


def check_algorithm(one: Algorithm, sizes: Iterable[int] = range(2, 10)) -> None:
    """Check the steps of an algorithm: they must be valid and deliver all data to every member.

    Parameters
    ----------
    sizes : group sizes to check, if the algorithm is usable for them

    Raises
    ------
    ValueError
        A check fails; the message names the algorithm, the group size and the step.

    Examples
    --------
    >>> check_algorithm(Algorithm("all-gather", "short", lambda n: [shift(n, 1)]), [3])
    Traceback (most recent call last):
    ValueError: all-gather short, 3 members: member 0 never gets the data of member 1; add steps
    """
    for n in sizes:
        if one.usable(n):
            where = f"{one.collective} {one.name}, {n} members"
            _check_algorithm(one, (2 * n, n) if one.nested else (n,), where)


def _check_algorithm(one: Algorithm, n: tuple[int, ...], where: str) -> None:
    known = np.eye(n[0] + 1, dtype=bool)  # whose data each member has; last row: the switch
    if not one.steps(*n):
        raise ValueError(f"{where}: there are no steps; yield a Step")
    for number, step in enumerate(one.steps(*n)):
        _check_step(step, n[0], SWITCH if one.in_switch else 0, f"{where}, step {number}")
        for _ in range(step.times):
            before = known.copy()
            np.logical_or.at(known, step.target, before[step.source])
    if one.uneven:
        equal = replace(one, splits=Splits(np.ones((n[0], n[0]), np.int64)))
        if not all(map(np.array_equal, equal.flows(*n), one.flows(*n))):
            raise ValueError(
                f"{where}: with equal splits its flows differ from those without splits; "
                "use split_step"
            )
    if one.is_exchange and not _is_exchange(one, *n):
        raise ValueError(
            f"{where}: its steps are not the exchange that it declares; correct them, or leave out "
            "exchange"
        )
    everyone = np.arange(n[0])
    hears = everyone if one.collective in (*EVERYONE, *FROM_FIRST) else everyone[:1]
    speaks = everyone if one.collective in (*EVERYONE, *TO_FIRST) else everyone[:1]
    lost = np.argwhere(~known[np.ix_(hears, speaks)])
    if len(lost):
        member, other = lost[0].tolist()
        raise ValueError(
            f"{where}: member {member} never gets the data of member {other}; add steps"
        )


def _is_exchange(one: Algorithm, n: int) -> bool:
    """True if the algorithm's declared exchange matches its single step."""
    steps, pairs, told = one.steps(n), n * (n - 1), one.exchange
    assert told is not None  # noqa: S101  is_exchange
    if len(steps) > 1 or steps[0].times != told.times or len(steps[0].source) != pairs:
        return False
    if [*_dependent_messages(steps[0])] != one.latency_path(n):
        return False
    share = one.flows(n).share
    return len(share) == pairs and bool((share == told.times * told.part(n)).all())


def _check_step(step: Step, n: int, least: int, where: str) -> None:
    """Raise an error for unknown members, messages to oneself, or invalid sizes."""
    if step.times < 1 or step.of < 1 or np.any(np.less(step.parts, 0)):
        raise ValueError(
            f"{where}: parts, of or times is out of range; give parts >= 0, of >= 1 and times >= 1"
        )
    for end in (step.source, step.target):
        if not len(end) or end.min() < least or end.max() >= n:
            raise ValueError(
                f"{where}: members are {least} to {n - 1}, a message has {end.tolist()}; "
                "correct source or target"
            )
    if np.any(step.source == step.target):
        raise ValueError(f"{where}: a member sends to itself; leave that message out")
