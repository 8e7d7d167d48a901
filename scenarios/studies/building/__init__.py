"""Systems, backends and graphs of a scenario."""

from . import transfers as _transfers  # noqa: F401  registers itself
