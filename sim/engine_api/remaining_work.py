"""Remaining work of an op that is moved to components where it takes another time.

The remaining fraction is kept, not the time: of an op of 10 s of which 2 s are done, 80 % of its
time on the new components remains (``docs/semantics.md``, section 5).
"""

from __future__ import annotations

from typing import NamedTuple


class RemainingWork(NamedTuple):
    """Remaining fixed time and work of an op, and the totals of both.

    Parameters
    ----------
    fixed, of_fixed : remaining and total fixed time, in ticks
    work, of_work : remaining and total work, in rate units x ticks
    """

    fixed: int
    of_fixed: int
    work: int
    of_work: int

    def apply_to(self, fixed: int, work: int) -> tuple[int, int]:
        """Apply the remaining fractions to another fixed time and work, rounded up.

        If the op has the same phases as before, each keeps its own fraction. Otherwise the
        remaining fraction of the work (of the fixed time, if there was no work) applies to both.

        Examples
        --------
        >>> half = RemainingWork(0, 3, 50, 100)
        >>> RemainingWork(8, 10, 0, 0).apply_to(5, 0), half.apply_to(6, 10), half.apply_to(6, 0)
        ((4, 0), (0, 5), (3, 0))
        """
        same = (self.of_fixed > 0, self.of_work > 0) == (fixed > 0, work > 0)
        part = (self.work, self.of_work) if self.of_work else (self.fixed, self.of_fixed)
        if not part[1]:
            return fixed, work  # nothing of it was ever done
        parts = ((self.fixed, self.of_fixed), (self.work, self.of_work)) if same else (part, part)
        (a, of_a), (b, of_b) = parts
        return _share_rounded_up(fixed, a, of_a), _share_rounded_up(work, b, of_b)


ALL = RemainingWork(0, 0, 0, 0)  # of an op at its start


def _share_rounded_up(whole: int, left: int, of: int) -> int:
    """Compute ``whole * left / of``, rounded up; 0 if ``whole`` is 0."""
    return -(-whole * left // of) if whole else 0
