"""Builder of the ``Timing`` of a fabric, filled shape by shape."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....sim.facts.backend import Usage
from ....sim.facts.csr import Csr
from ....sim.facts.system import CORE
from .collective_plan import CollectivePlan
from .group_shapes import GroupShapes
from .protocols import Floats

Cores = NDArray[np.int32]  # (rows, members) core indices, if library threads run on them


class CoreUse(NamedTuple):
    """What collectives take of the cores of their members.

    Parameters
    ----------
    cores : (rows, members), or (1, 0) for none
    share : (rows,) of each core, while nothing else is on it
    pace : (rows,) alone, over what it would be if the cores alone held it back
    """

    cores: Cores
    share: Floats
    pace: Floats

    def weights(self) -> Floats:
        """(rows, members) what each core gives for as much work as one has in a second of it."""
        return np.repeat((self.share / self.pace)[:, None], self.cores.shape[1], axis=1)


class TimingBuilder:
    """Builder of a ``Timing``, filled with rows of groups of one shape at a time.

    Parameters
    ----------
    n : number of rows
    shapes : of their groups
    """

    def __init__(self, n: int, shapes: GroupShapes):
        self.shapes = shapes
        self.fixed, self.work = np.zeros(n), np.zeros(n)
        self._limit = np.full(n, np.inf)
        self._picks: list[tuple[int, int, str, int]] = []
        self._counts = np.zeros(n, np.int64)
        self._uses: list[tuple[NDArray[np.int64], Usage]] = []

    def record_choice(
        self, what: str, rows: NDArray[np.int64], selected: NDArray[np.bool_], number: int
    ) -> None:
        """Note that some of the rows are done in a way, by its number."""
        group = self.shapes.group[rows]
        _, first, which = np.unique(group, return_index=True, return_inverse=True)
        self._picks.append(
            (int(rows[first[which[selected]]].min()), number, what, int(selected.sum()))
        )

    def choice_counts(self) -> Counter[str]:
        """How many rows are done in each way, as if their groups were asked one by one."""
        found: Counter[str] = Counter()
        for _, _, what, count in sorted(self._picks):
            found[what] += count
        return found

    def add(
        self, rows: NDArray[np.int64], plan: CollectivePlan, fixed: Floats, work: Floats
    ) -> None:
        """Set one plan for some rows; ``work`` is at the shared rate of all it uses."""
        self.fixed[rows], self.work[rows] = fixed, work
        if work.any():
            self._limit[rows] = plan.limit
            used = self.shapes.corresponding(plan.component, rows)
            self._add_use(rows, used, plan.weight)

    def add_rows_with_own_usage(
        self, rows: NDArray[np.int64], fixed: Floats, work: Floats, limit: Floats, usage: Usage
    ) -> None:
        """Set rows that each have a limit and a usage of their own.

        Where no row of a shape has work, its rows use nothing.
        """
        self.fixed[rows], self.work[rows] = fixed, work
        shape = self.shapes.shape[rows]
        moves = np.zeros(len(self.shapes.first), bool)
        moves[shape[work > 0]] = True
        some = np.flatnonzero(moves[shape])
        at = Csr(usage.indptr, np.arange(len(usage.weight), dtype=np.int32)).take(some)
        self._limit[rows[some]] = limit[some]
        self._note_use(
            rows[some], Usage(at.indptr, usage.component[at.values], usage.weight[at.values])
        )

    def add_fixed(self, rows: NDArray[np.int64], fixed: Floats) -> None:
        """Set rows that take a time of their own and share nothing."""
        self.fixed[rows] = fixed

    def hold_links(
        self, rows: NDArray[np.int64], plan: CollectivePlan, alone: Floats, core_use: CoreUse
    ) -> None:
        """Set one plan that keeps its links for its whole time, and the cores for a part of it.

        Parameters
        ----------
        alone : s, of each row: what it takes
        """
        self.work[rows], self._limit[rows] = alone * CORE * core_use.pace, CORE * core_use.pace
        links = plan.weight / plan.beta / CORE / core_use.pace[:, None]
        cores = np.broadcast_to(core_use.cores, (len(rows), core_use.cores.shape[1]))
        used = self.shapes.corresponding(plan.component, rows)
        self._add_use(rows, np.hstack([used, cores]), np.hstack([links, core_use.weights()]))

    def hold_cores(self, rows: NDArray[np.int64], alone: Floats, core_use: CoreUse) -> None:
        """Set what takes its time whatever else is on the links, and the cores for a part of it."""
        self.work[rows], self._limit[rows] = alone * CORE * core_use.pace, CORE * core_use.pace
        self._add_use(rows, core_use.cores, core_use.weights())

    def _add_use(
        self, rows: NDArray[np.int64], component: NDArray[np.int32], weight: Floats
    ) -> None:
        """Add a table of as many uses for each row."""
        indptr = np.arange(len(rows) + 1) * component.shape[1]
        every = np.broadcast_to(weight, component.shape).ravel()
        self._note_use(rows, Usage(indptr, component.ravel(), every))

    def _note_use(self, rows: NDArray[np.int64], usage: Usage) -> None:
        self._counts[rows] = np.diff(usage.indptr)
        self._uses.append((rows, usage))

    def limit(self) -> Floats | None:
        """Largest work per second; None where nothing bounds a sender."""
        return self._limit if (self._limit < np.inf).any() else None

    def usage(self) -> Usage:
        """Components and weights of every row."""
        indptr = np.zeros(len(self.fixed) + 1, np.int64)
        np.cumsum(self._counts, out=indptr[1:])
        component, weight = np.zeros(indptr[-1], np.int32), np.zeros(indptr[-1])
        for rows, used in self._uses:
            begins = np.repeat(indptr[rows] - used.indptr[:-1], np.diff(used.indptr))
            at = begins + np.arange(len(begins))
            component[at], weight[at] = used.component, used.weight
        return Usage(indptr, component, weight)
