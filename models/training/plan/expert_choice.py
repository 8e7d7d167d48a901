"""Assignment of tokens to experts: tokens per expert, and load of the busiest rank."""

from __future__ import annotations

from dataclasses import dataclass

SHARES = 10**9
"""Number of token units per rank, so that shares are integers."""


@dataclass(frozen=True)
class ExpertChoice:
    """Distribution of tokens over experts, and the placement of experts on ranks.

    Parameters
    ----------
    counts : tokens per expert, or any numbers in proportion to them
    round_robin : True if experts are assigned to ranks in turn, one each; otherwise each rank has a
        block of consecutive experts

    Examples
    --------
    >>> choice = ExpertChoice((30, 10, 10, 10), round_robin=False)
    >>> choice.busiest_over_mean(2)  # 40 of 60, over a half
    1.3333333333333333
    """

    counts: tuple[float, ...]
    round_robin: bool

    def busiest_over_mean(self, ranks: int) -> float:
        """Tokens of the busiest rank divided by the mean, for this number of ranks."""
        return max(self._counts_of_ranks(ranks)) * ranks / sum(self.counts)

    def shares(self, ranks: int) -> tuple[int, ...]:
        """Tokens sent to each rank's experts out of 10^9, shape (ranks,); () if all are equal.

        >>> ExpertChoice((30, 10, 10, 10), round_robin=False).shares(2)
        (666666667, 333333333)
        >>> ExpertChoice((1, 1), round_robin=True).shares(2)
        ()
        """
        counts = self._counts_of_ranks(ranks)
        shares = tuple(round(SHARES * count / sum(counts)) for count in counts)
        return shares if len(set(shares)) > 1 else ()

    def _counts_of_ranks(self, ranks: int) -> list[float]:
        here = len(self.counts) // ranks
        return [
            sum(
                self.counts[r::ranks]
                if self.round_robin
                else self.counts[r * here : (r + 1) * here]
            )
            for r in range(ranks)
        ]


def zipf_choice(experts: int, exponent: float) -> ExpertChoice:
    """Zipf distribution: tokens of the k-th most chosen expert in proportion to ``k ** -exponent``.

    >>> [round(zipf_choice(8, exponent).busiest_over_mean(8), 3) for exponent in (0.0, 1.0)]
    [1.0, 2.943]
    """
    return ExpertChoice(tuple((k + 1.0) ** -exponent for k in range(experts)), round_robin=True)
