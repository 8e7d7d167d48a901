"""Error distribution of a model's predictions, measured on data that it was not fitted to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

QUANTILES = 40  # the outermost lie at 1.25 and 98.75 %


@dataclass(frozen=True)
class Doubt:
    """Distribution of a model's error on held-out ops of one family and regime.

    Parameters
    ----------
    family : family of ops with common errors, such as ``gemm``
    regime : what bounds the ops: ``launch``, ``latency``, ``memory`` or ``arithmetic``; "" for any
    quantiles : ascending quantiles of ln(measured / predicted) at (i + 1/2) / q; empty if the error
        of the family was never measured

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
        """Error distribution from predicted and measured times of held-out ops, all above 0.

        Parameters
        ----------
        predicted, measured : (n,) times in s
        """
        errors = np.log(np.asarray(measured, np.float64) / np.asarray(predicted, np.float64))
        levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
        return cls(family, regime, tuple(np.quantile(errors, levels).tolist()))

    def interval(self, level: float = 0.9) -> tuple[float, float]:
        """Factors on a prediction that bound the measured time with a given probability.

        It is (0, infinity) if the error of the family was never measured.
        """
        if not self.quantiles:
            return 0.0, float("inf")
        return self.factor((1 - level) / 2), self.factor((1 + level) / 2)

    def factor(self, probability: float) -> float:
        """Factor on a prediction below which the measured time lies with a given probability.

        Raises
        ------
        ValueError
            The error of the family was never measured.

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
