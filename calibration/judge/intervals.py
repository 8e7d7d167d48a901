"""Coverage of error intervals on measured sources that neither fit nor interval used.

    python -m foretrace.calibration.judge.intervals

A judged group is one family of one source on one GPU. Constants and error quantiles come from all
other sources, on any GPU; then the group's rows are predicted. Prints the table of
docs/coverage.md: rows inside 90 % intervals, with a 95 % interval of that fraction (Wilson's, as if
rows were independent; below 40 rows only the count); groups whose sum of times is inside, which is
what a run adds up; and the width of the intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from foretrace.models.compute.kernels import KernelFamily
from scipy.stats import binomtest, spearmanr

from ..fit.kernels import (
    CONSTANTS,
    FITTED_ON,
    REGIMES,
    Found,
    errors,
    interval_ends,
    is_covered,
    leave_one_out_fits,
    library,
    quantiles,
    roofline_errors,
    seconds,
    source_effects,
    widened_errors,
)
from ..fit.kernels import fitted as fit
from ..rows.kernel_rows import CHIPS, Group, groups

FEWEST = 40  # cases below which a share says nothing


class Judged(NamedTuple):
    """Result for one group, predicted without its source.

    Parameters
    ----------
    held : (n,) True for rows inside their interval
    wrong : (n,) absolute ln(measured / predicted)
    width : (n,) ln of the upper end divided by the lower end
    together : True if the sum of all rows is inside its interval
    """

    family: str
    gpu: str
    source: str
    held: np.ndarray
    wrong: np.ndarray
    width: np.ndarray
    together: bool


def judged(g: Group, told: dict, found: tuple[np.ndarray, np.ndarray], took: np.ndarray) -> Judged:
    error, regime = found
    both = np.array([interval_ends(told, r) for r in REGIMES])[regime]
    factors = np.exp(both)
    low, high = (took * factors.T).sum(axis=1)
    return Judged(
        g.family, g.gpu, g.source, is_covered(told, found), np.abs(error),
        both[:, 1] - both[:, 0], bool(low <= g.seconds.sum() <= high),
    )  # fmt: skip


Doubts = dict[str, tuple[float, ...]]  # quantiles by regime


def unseen_families(seen: list[Group]) -> Iterator[tuple[Group, KernelFamily, Doubts]]:
    """Each group of families with own constants, with constants and intervals of other sources."""
    for name in CONSTANTS:
        of = [g for g in seen if g.family == name]
        alone = len({library(g) for g in of}) == 1
        for source in sorted({g.source for g in of}):
            others = [g for g in of if g.source != source]
            more = source_effects([g for g in seen if g.source != source], ("elementwise",))
            wrong: Found = [
                errors(f, g)
                for gpu in CHIPS
                for g, f in leave_one_out_fits(name, [o for o in others if o.gpu == gpu], "source")
            ] + [errors(f, g) for g, f in leave_one_out_fits(name, others, "gpu")]
            told = quantiles(widened_errors(wrong, more if alone else np.empty(0)))
            for g in (g for g in of if g.source == source):
                same = [o for o in others if o.gpu == g.gpu] or others
                if same and "" in told:
                    yield g, fit(name, same), told


def kernels(seen: list[Group]) -> Iterator[Judged]:
    """Results for groups of families with their own constants."""
    for g, family, told in unseen_families(seen):
        yield judged(g, told, errors(family, g), seconds(family, g))


def unseen_products(seen: list[Group]) -> Iterator[tuple[Group, Doubts]]:
    """GEMM groups of sources without a fitted roofline, each with the intervals of the others."""
    of = [g for g in seen if g.family == "product" and g.source != FITTED_ON[g.gpu]]
    for g in of:
        yield g, quantiles([roofline_errors(o.gpu, o) for o in of if o.source != g.source])


def products(seen: list[Group]) -> Iterator[Judged]:
    """Results for GEMMs, by the roofline of their GPU."""
    for g, told in unseen_products(seen):
        found = roofline_errors(g.gpu, g)
        yield judged(g, told, found, g.seconds / np.exp(found[0]))


def line(name: str, some: list[Judged]) -> str:
    """Row of the printed table."""
    held = np.concatenate([j.held for j in some])
    wrong = np.concatenate([j.wrong for j in some])
    width = np.concatenate([j.width for j in some])
    share = f"{held.sum()} of {len(held)}"
    if len(held) >= FEWEST:
        low, high = binomtest(int(held.sum()), len(held)).proportion_ci(method="wilson")
        share = f"{held.mean():.1%} ({low:.1%} to {high:.1%})"
    whole = f"{sum(j.together for j in some)} of {len(some)}"
    ratio = np.median(width) / np.quantile(wrong, 0.9)
    return f"| {name} | {len(held):,} | {share} | {whole} | {ratio:.1f} |"


def main() -> None:
    seen = [g for g in groups() if not g.aside]
    every = [*kernels(seen), *products(seen)]
    print("| family | rows | held | sums held | width |\n| --- | ---: | ---: | ---: | ---: |")
    for name in dict.fromkeys(j.family for j in every):
        print(line(name, [j for j in every if j.family == name]))
    print(line("**all**", every))
    low = sorted(every, key=lambda j: j.held.mean())[:8]
    print("\nheld least:")
    for j in low:
        print(f"  {j.family} {j.gpu} {j.source}: {j.held.mean():.0%} of {len(j.held)}")
    pairs = [(np.median(j.width), np.median(j.wrong)) for j in every]
    print(f"rank correlation of width and error over {len(pairs)} groups: "
          f"{spearmanr(*zip(*pairs, strict=True)).statistic:+.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
