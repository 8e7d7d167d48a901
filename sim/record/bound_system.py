"""Interface of a machine whose components are bound to backends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import ComponentTable
from ..facts.backend import Backend
from ..facts.system import System
from ..units import Bytes, Seconds
from .binding import Bindings


class BoundSystem(Protocol):
    """Machine with a backend for each component, and the settings of its runs."""

    @property
    def system(self) -> System:
        """Components of the machine."""

    @property
    def engine(self) -> str:
        """Engine that runs graphs: ``core`` or ``reference``."""

    @property
    def tick(self) -> Seconds:
        """Length of a tick of simulated time, in s."""

    @property
    def seed(self) -> int:
        """Seed of the random factors on durations."""

    @property
    def memory(self) -> Bytes | None:
        """Memory limit for submitted graphs; None for no limit."""

    @property
    def bound(self) -> Bindings:
        """Backend of each component."""

    @property
    def distinct_backends(self) -> Sequence[Backend]:
        """The distinct backends."""

    @property
    def timing_groups(self) -> NDArray[np.int64]:
        """Group number per component: equal ops on one group take equal times; -1 if unknown."""

    @property
    def scale(self) -> dict[str, int]:
        """Scale exponent K of each unit: rates in that unit are integers in 2^-K."""

    @property
    def parts(self) -> ComponentTable:
        """Component table in the engine's integer units."""
