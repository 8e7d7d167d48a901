"""Builder of the fabric's ``Timing``, filled one group shape at a time."""

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
    """Use of the members' cores by collectives.

    Parameters
    ----------
    cores : (rows, members) core indices, or shape (1, 0) if none
    share : (rows,) fraction of each core that is used while nothing else runs on it
    pace : (rows,) time alone divided by the time that the core work alone would take
    """

    cores: Cores
    share: Floats
    pace: Floats

    def weights(self) -> Floats:
        """Weight of each core relative to the work of its collective, shape (rows, members)."""
        return np.repeat((self.share / self.pace)[:, None], self.cores.shape[1], axis=1)


class TimingBuilder:
    """Builder of a ``Timing``, filled with rows of one group shape at a time.

    Parameters
    ----------
    n : number of rows
    shapes : shapes of the rows' groups
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
        """Record that the selected rows use the candidate plan with this ``number``."""
        group = self.shapes.group[rows]
        _, first, which = np.unique(group, return_index=True, return_inverse=True)
        self._picks.append(
            (int(rows[first[which[selected]]].min()), number, what, int(selected.sum()))
        )

    def choice_counts(self) -> Counter[str]:
        """Number of rows that use each algorithm and protocol."""
        found: Counter[str] = Counter()
        for _, _, what, count in sorted(self._picks):
            found[what] += count
        return found

    def add(
        self, rows: NDArray[np.int64], plan: CollectivePlan, fixed: Floats, work: Floats
    ) -> None:
        """Set one plan for some rows; ``work`` proceeds at the shared rate of its components."""
        self.fixed[rows], self.work[rows] = fixed, work
        if work.any():
            self._limit[rows] = plan.limit
            used = self.shapes.corresponding(plan.component, rows)
            self._add_use(rows, used, plan.weight)

    def add_rows_with_own_usage(
        self, rows: NDArray[np.int64], fixed: Floats, work: Floats, limit: Floats, usage: Usage
    ) -> None:
        """Set the timing of rows that each have their own limit and usage.

        If no row of a shape has work, its rows use no component.
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
        """Set the timing of rows that take a fixed time and share no component."""
        self.fixed[rows] = fixed

    def hold_links(
        self, rows: NDArray[np.int64], plan: CollectivePlan, alone: Floats, core_use: CoreUse
    ) -> None:
        """Set one plan that occupies its links for its complete duration, and its cores in part.

        Parameters
        ----------
        alone : time of each row in s when nothing else runs
        core_use : use of the members' cores
        """
        self.work[rows], self._limit[rows] = alone * CORE * core_use.pace, CORE * core_use.pace
        links = plan.weight / plan.beta / CORE / core_use.pace[:, None]
        cores = np.broadcast_to(core_use.cores, (len(rows), core_use.cores.shape[1]))
        used = self.shapes.corresponding(plan.component, rows)
        self._add_use(rows, np.hstack([used, cores]), np.hstack([links, core_use.weights()]))

    def hold_cores(self, rows: NDArray[np.int64], alone: Floats, core_use: CoreUse) -> None:
        """Set rows that use their members' cores, but no links.

        Parameters
        ----------
        rows : rows to set
        alone : (rows,) duration in s while nothing else runs
        core_use : use of the members' cores; if a core is shared, the row takes longer
        """
        self.work[rows], self._limit[rows] = alone * CORE * core_use.pace, CORE * core_use.pace
        self._add_use(rows, core_use.cores, core_use.weights())

    def _add_use(
        self, rows: NDArray[np.int64], component: NDArray[np.int32], weight: Floats
    ) -> None:
        """Add a table of component uses, with the same number of uses for each row."""
        indptr = np.arange(len(rows) + 1) * component.shape[1]
        every = np.broadcast_to(weight, component.shape).ravel()
        self._note_use(rows, Usage(indptr, component.ravel(), every))

    def _note_use(self, rows: NDArray[np.int64], usage: Usage) -> None:
        self._counts[rows] = np.diff(usage.indptr)
        self._uses.append((rows, usage))

    def limit(self) -> Floats | None:
        """Largest work rate of each row; None if no row has a limit."""
        return self._limit if (self._limit < np.inf).any() else None

    def usage(self) -> Usage:
        """Used components and weights of every row."""
        indptr = np.zeros(len(self.fixed) + 1, np.int64)
        np.cumsum(self._counts, out=indptr[1:])
        component, weight = np.zeros(indptr[-1], np.int32), np.zeros(indptr[-1])
        for rows, used in self._uses:
            begins = np.repeat(indptr[rows] - used.indptr[:-1], np.diff(used.indptr))
            at = begins + np.arange(len(begins))
            component[at], weight[at] = used.component, used.weight
        return Usage(indptr, component, weight)
