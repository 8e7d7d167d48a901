"""From a file to an answer: what is described, checked, built, run and kept.

The only place where a name in a file becomes a class.  Begin with ``loader.py``.
"""

from __future__ import annotations

from .config.homes import hand_over, import_modules


def _import_backends() -> None:
    from .. import models

    import_modules(models)
    from ..hil import recording_backend  # noqa: F401  drivers of devices are loaded one by one


def _import_workloads() -> None:
    from . import workloads

    import_modules(workloads)


hand_over(backends=_import_backends, workloads=_import_workloads)
