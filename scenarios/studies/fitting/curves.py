"""Fit of a curve with few parameters, written to a file that a model reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....models.calibration.calibrate import Calibration, calibrate
from ....models.calibration.identifiability import Model, Parameter
from ....sim.errors import ScenarioError
from ....sim.facts.ops import Ops
from ...config.reading.renamed_settings import renamed_settings_text
from .recording_rows import MeasuredRows

Settings = Mapping[str, Any]
Floats = NDArray[np.float64]
MAX_INTERVAL_RATIO = (
    10.0  # ends of an interval: a bound binds few combinations, and refits lose some of them
)


@dataclass(frozen=True)
class Curve:
    """A kind of curve that can be fitted, and the functions for its fit.

    Parameters
    ----------
    kind : argument of ``foretrace fit``
    part : kind of part whose settings are the starting point
    form : name of the format in the fitted curve's file
    guesses : start value of the search, by parameter
    usual : parameters that are fitted by default
    draws : number of refits for intervals; each evaluates a model that is not smooth
    before : function from the settings of the part to the parameters before the fit
    read_signature : function from an op's signature to its numbers, such as size and depth;
        ``seconds`` takes them
    seconds : function from the parameters, and an array of each number of the ops, to the time of
        each op in s
    check : function that raises an error for unsuitable recordings
    """

    kind: str
    part: str
    form: str
    guesses: Mapping[str, float]
    usual: Sequence[str]
    draws: int
    before: Callable[[Settings], dict[str, float]]
    read_signature: Callable[[str], Sequence[float]]
    seconds: Callable[..., Floats]
    check: Callable[[MeasuredRows], None]

    def model(self, fixed: Mapping[str, float]) -> Model:
        """Function that predicts the time of each row in s from the fitted parameters.

        Parameters
        ----------
        fixed : parameters that are not fitted, by name
        """

        def seconds(p: dict[str, float], rows: Ops) -> Floats:
            told = np.array([self.read_signature(t) for t in rows.signatures], float)[
                rows.signature
            ]
            return self.seconds({**fixed, **p}, *told.T)

        return seconds

    def fit(
        self, data: MeasuredRows, settings: Settings, names: Sequence[str], holdout: str
    ) -> tuple[Calibration, dict[str, float]]:
        """Fit the curve; also returns the parameters held fixed.

        Parameters
        ----------
        settings : settings of the part before the fit, in SI
        names : parameters to fit; the usual ones if empty
        holdout : one of ``HOLDOUTS``; ``shapes`` are combinations of an op's attributes

        Raises
        ------
        ScenarioError
            The recording has unsuitable ops, a setting is missing, or a parameter is unknown.
        """
        self.check(data)
        require_parameters(self.kind, names, self.guesses)
        before, chosen = self.before(settings), tuple(names) or self.usual
        fixed = {name: value for name, value in before.items() if name not in chosen}
        parameters = [Parameter(name, before[name], self.guesses[name]) for name in chosen]
        rows = data.rows(holdout)
        found = calibrate(
            self.model(fixed),
            parameters,
            rows,
            draws=self.draws,
            max_interval_ratio=MAX_INTERVAL_RATIO,
        )
        return found, fixed

    def file(
        self, name: str, calibration: Calibration, fixed: Mapping[str, float], report: Settings,
        today: str,
    ) -> dict[str, Any]:  # fmt: skip
        """Content of the file of a fitted curve, with its fitted and fixed parameters."""
        return {
            "form": self.form,
            "schema": 1,
            "name": name,
            "parameters": {**fixed, **calibration.values},
            "intervals": {p.name: p.interval for p in calibration.parameters},
            "source": f"{report['where']}; foretrace fit {self.kind}, {today}",
            "held_out": {k: report[k] for k in ("holdout", "fits")},
        }


def require_parameters(
    kind: str, names: Sequence[str], known: Mapping[str, float], part: str = ""
) -> None:
    """Raise an error for unknown parameter names.

    Parameters
    ----------
    part : kind of part whose renamed settings the message mentions; "" for none

    Examples
    --------
    >>> require_parameters("rates", ["latncy"], {"latency": 1e-6})
    Traceback (most recent call last):
    foretrace.sim.errors.ScenarioError: fit rates: no parameter latncy; write one of latency
    """
    if strange := sorted(set(names) - set(known)):
        raise ScenarioError(
            f"fit {kind}: no parameter {', '.join(strange)}"
            f"{renamed_settings_text(part, strange) if part else ''}; "
            f"write one of {', '.join(known)}"
        )
