"""What is left of an op that goes on elsewhere, where it takes another time.

The share that is left of it is kept, not the time: of an op of 10 s of which 2 s are done, 80 % of
what it takes at its new place is left (``docs/semantics.md``, section 5).
"""

from __future__ import annotations

from typing import NamedTuple


class RemainingWork(NamedTuple):
    """Fixed time and work that are left of an op, and all of both.

    Parameters
    ----------
    fixed, of_fixed : ticks
    work, of_work : rate units x ticks
    """

    fixed: int
    of_fixed: int
    work: int
    of_work: int

    def of(self, fixed: int, work: int) -> tuple[int, int]:
        """What is left of another fixed time and work: the same share, rounded up.

        Each phase keeps its own share.  Where one has no counterpart, the share that is left of the
        work (of the fixed time, where there was no work) is that of all.

        Examples
        --------
        >>> half = RemainingWork(0, 3, 50, 100)
        >>> RemainingWork(8, 10, 0, 0).of(5, 0), half.of(6, 10), half.of(6, 0)
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
    """``whole * left / of``, rounded up; 0 of nothing."""
    return -(-whole * left // of) if whole else 0
