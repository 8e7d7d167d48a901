"""Interface of a machine whose components are bound to backends, as runs and folds read it."""

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
    """Machine, who answers for its components, and how a run of it counts time and draws."""

    @property
    def system(self) -> System:
        """Components of the machine."""

    @property
    def engine(self) -> str:
        """Engine of its runs: ``core`` or ``reference``."""

    @property
    def tick(self) -> Seconds:
        """Unit of simulated time."""

    @property
    def seed(self) -> int:
        """Seed of the random factors of durations."""

    @property
    def memory(self) -> Bytes | None:
        """Memory for graphs that are held; None for no bound."""

    @property
    def bound(self) -> Bindings:
        """Backend of each component."""

    @property
    def distinct_backends(self) -> Sequence[Backend]:
        """Backends, each once."""

    @property
    def timing_groups(self) -> NDArray[np.int64]:
        """(components,) number of each component's group of equally timed components; or -1."""

    @property
    def scale(self) -> dict[str, int]:
        """Scale K of each unit: rates of that unit are in 2^-K."""

    @property
    def parts(self) -> ComponentTable:
        """Components as an engine reads them."""
