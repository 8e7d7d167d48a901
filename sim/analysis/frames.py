"""Results as pandas DataFrames: one row per op, or one row per period of each rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import NEVER, State
from ..facts.part_names import names_by_number
from ..record.run_record import RunRecord
from ..units import seconds
from .activity import exposed_communication_seconds
from .op_sums import stored_or_summed_aggregates

if TYPE_CHECKING:
    import pandas as pd


def op_frame(result: RunRecord) -> pd.DataFrame:
    """DataFrame with one row per op, for a result that kept op rows; see :meth:`Result.frame`."""
    import pandas as pd

    labels = [run.graph.label(i).name for run in result.runs for i in range(len(run.graph))]
    ops = result.ops
    several = len(result.jobs) > 1
    return pd.DataFrame(
        {
            **({"job": np.array(result.jobs, object)[result.job]} if several else {}),
            "name": labels,
            "kind": ops.kind_names,
            "rank": ops.rank,
            "stream": ops.stream,
            **({"period": ops.period} if np.any(ops.period >= 0) else {}),
            "component": names_by_number(result.parts.names, result.component, ""),
            "ready_us": result.ready * 1e6,
            "start_us": result.start * 1e6,
            "end_us": result.end * 1e6,
            "state": [State(s).name.lower() for s in result.columns.state.tolist()],
        }
    )


def rank_period_frame(result: RunRecord) -> pd.DataFrame:
    """DataFrame with one row per period of each rank; see :meth:`Result.rank_frame`."""
    import pandas as pd

    if len(result.jobs) > 1:
        frames = {job: rank_period_frame(result.of(job)) for job in result.jobs}
        return pd.concat(frames, names=["job"]).reset_index("job").reset_index(drop=True)
    kept = stored_or_summed_aggregates(result)
    step, rank = (a.ravel() for a in np.indices(kept.start.shape))
    return pd.DataFrame(
        {
            "rank": rank,
            **({"period": kept.steps[step]} if len(kept.steps) else {}),
            "start_us": ticks_to_microseconds(result, kept.start),
            "end_us": ticks_to_microseconds(result, kept.end),
            "exposed_us": exposed_communication_seconds(result).ravel() * 1e6,
        }
    )


def ticks_to_microseconds(result: RunRecord, at: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n,) microseconds from ticks; NaN for missing ticks."""
    found = seconds(at.ravel(), result.tick)
    found[at.ravel() == NEVER] = np.nan
    return found * 1e6
