"""Budget of the simulations that explain an answer, decided from numbers of ops.

Ops that processes submit cost a call of Python each. A run that submits many is explained by few
simulations. Numbers of ops, and no clock, decide; so the same run is explained in the same way.
"""

from __future__ import annotations

from ....sim.run.result import Result
from ..variants.variants import VariantResults
from . import plan


def submitted_ops(of: VariantResults) -> int:
    """Number of ops that processes submitted in one simulation of a variant."""
    known = sum(len(graph) for graph in of.point.built.graphs.values() if graph is not None)
    return max(of.result.count - known, 0)


def allowed_simulations(of: VariantResults) -> float:
    """Number of simulations that may explain a variant; infinite if processes submit no ops.

    ``run.explain`` times the simulations of the answer, or more if they are small together.
    """
    submitted = submitted_ops(of)
    if not submitted:
        return float("inf")
    return max(of.point.scenario.run.explain * (1 + len(of.replicas)), plan.SMALL // submitted)


def over_budget_text(of: VariantResults, simulations: int, every: int) -> str:
    """Cause and cure for simulations that the budget does not allow.

    Parameters
    ----------
    simulations : number that was not allowed
    every : number of all simulations that explain the variant
    """
    many, own = f"{submitted_ops(of):,}", 1 + len(of.replicas)
    return (
        f"it takes {simulations} simulations of {many} submitted ops each, and all that explain "
        f"the answer may be {of.point.scenario.run.explain:g} times the run's own; set run.explain "
        f"to {-(-every // own)}, or make the run shorter"
    )


def is_steered_without_rows(result: Result) -> bool:
    """True if rows of ops were not kept and processes steered the run."""
    return result.written is None and not isinstance(result.repeat_window, str)
