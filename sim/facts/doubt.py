"""Doubt: how wrong an answer may be, learnt from what a model was not fitted to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

QUANTILES = 40  # the outermost lie at 1.25 and 98.75 %


@dataclass(frozen=True)
class Doubt:
    """How wrong a model was about ops that it had not seen, of one family in one regime.

    Parameters
    ----------
    family : ops that are wrong together, such as ``gemm``
    regime : what bounds them: ``launch``, ``latency``, ``memory``, ``arithmetic``; "" for any
    quantiles : of ln(measured / predicted), ascending, at (i + 1/2) / q; empty where nobody has
        judged the family

    Examples
    --------
    >>> doubt = Doubt.of("gemm", "memory", predicted=[1.0, 1.0, 1.0], measured=[0.9, 1.0, 1.2])
    >>> low, high = doubt.interval(0.9)
    >>> round(low, 2), round(high, 2)
    (0.91, 1.18)
    >>> Doubt("moe").interval()
    (0.0, inf)
    """

    family: str
    regime: str = ""
    quantiles: tuple[float, ...] = ()

    @classmethod
    def of(cls, family: str, regime: str, predicted: ArrayLike, measured: ArrayLike) -> Doubt:
        """Doubt from rows that were held out, with times above 0.

        Parameters
        ----------
        predicted, measured : (n,) s
        """
        errors = np.log(np.asarray(measured, np.float64) / np.asarray(predicted, np.float64))
        levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
        return cls(family, regime, tuple(np.quantile(errors, levels).tolist()))

    def interval(self, level: float = 0.9) -> tuple[float, float]:
        """Factors on an answer between which the measured time lies with this probability.

        Everything, from 0 to infinity, where nobody has judged the family.
        """
        if not self.quantiles:
            return 0.0, float("inf")
        return self.factor((1 - level) / 2), self.factor((1 + level) / 2)

    def factor(self, probability: float) -> float:
        """Factor on an answer below which the measured time lies with this probability.

        Raises
        ------
        ValueError
            Nobody has judged the family.

        Examples
        --------
        >>> round(Doubt("gemm", "", (-0.2, 0.0, 0.2)).factor(0.5), 2)
        1.0
        """
        if not self.quantiles:
            raise ValueError(
                f"{self.family}: its error was never measured; compare the model with held-out "
                f"rows first"
            )
        q = len(self.quantiles)
        return float(np.exp(np.interp(probability, (np.arange(q) + 0.5) / q, self.quantiles)))
