"""Modules that a new worker has imported already: all that running a point needs."""

from __future__ import annotations

import numba  # noqa: F401
import pint  # noqa: F401

from ....sim.core import engine  # noqa: F401
from ..variants import variants  # noqa: F401
