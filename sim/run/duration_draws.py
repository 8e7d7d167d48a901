"""Random durations of a replica: factors on the times of a graph's ops."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import EngineGraph, Numbers
from ..errors import GraphError
from ..facts.sampling import (
    product_may_overflow,
    random_factors,
    scaled_duration,
    scaled_int128,
)
from ..record.prepared import Draw
from ..record.schedule import SubmittedRun


@dataclass(frozen=True)
class DurationDraws:
    """Random draws of op durations for one replica.

    Parameters
    ----------
    engine, seed : engine and random seed of the run
    replica : number of the replica; None for typical durations
    """

    engine: str
    seed: int
    replica: int | None

    def draw_function(self, run: SubmittedRun) -> Draw | None:
        """Function that draws durations for a prepared graph's submissions; None if none vary."""
        if self.replica is None or not run.answers.spreads:
            return None

        def plainly(numbers: Numbers, draw_key: tuple[int, ...]) -> Numbers:
            typical = replace(run, lowered=numbers.put_into(run.lowered))
            return Numbers.of(self.draw(typical, draw_key))

        if self.engine == "core":
            from ..core.programs.submission_draws import SubmissionDraws

            draws = SubmissionDraws(
                run.lowered.name,
                run.answers.spreads,
                run.lowered.flows.op,
                run.ops.rank,
                run.ops.period,
                seed=self.seed,
                replica=self.replica,
            )
            return lambda numbers, draw_key: (
                draws.draw(numbers, draw_key) or plainly(numbers, draw_key)
            )

        return plainly

    def draw(self, run: SubmittedRun, draw_key: tuple[int, ...]) -> EngineGraph:
        """Engine graph of a submitted graph, with the drawn durations of this replica."""
        lowered, spreads = run.lowered, run.answers.spreads
        if self.replica is None or not spreads:
            return lowered
        ops, fixed, flows = run.ops, lowered.fixed.copy(), lowered.flows
        hi, lo = flows.work_hi.copy(), flows.work_lo.copy()
        for rows, spread in spreads:
            drawn = random_factors(
                spread,
                name=lowered.name,
                row=rows,
                rank=ops.rank[rows],
                period=ops.period[rows],
                seed=self.seed,
                replica=self.replica,
                draw_key=draw_key,
            )
            shared = np.isin(rows, flows.op)
            at = np.searchsorted(flows.op, rows[shared])
            for by in drawn:
                _check_draw_fits(
                    lowered.name,
                    rows,
                    product_may_overflow(fixed[rows], by),
                    "time",
                    "use a coarser tick",
                )
                _check_draw_fits(
                    lowered.name,
                    rows[shared],
                    product_may_overflow(hi[at], by[shared]),
                    "work",
                    "split the op",
                )
                fixed[rows] = scaled_duration(fixed[rows], by)
                hi[at], lo[at] = scaled_int128(hi[at], lo[at], by[shared])
        return replace(lowered, fixed=fixed, flows=replace(flows, work_hi=hi, work_lo=lo))


def _check_draw_fits(
    name: str, rows: NDArray[np.int64], beyond: NDArray[np.bool_], what: str, cure: str
) -> None:
    """Raise an error if a drawn time or work exceeds the integer range."""
    for row in rows[beyond][:1].tolist():
        raise GraphError(
            "overflow",
            f"graph {name!r} op {row}: its drawn {what} does not fit in the engine's integers; "
            f"{cure}",
            (row,),
        )
