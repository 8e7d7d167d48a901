"""Modules that a new worker process has already imported."""

from __future__ import annotations

import numba  # noqa: F401
import pint  # noqa: F401

from ....sim.core import engine  # noqa: F401
from ..variants import variants  # noqa: F401
