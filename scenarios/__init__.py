"""Scenarios: read and check the files, build the systems, run them, and save the results.

The only place where a name in a file becomes a class. Begin with ``config/loader.py``.
"""

from __future__ import annotations

from .config.module_importers import import_modules, set_module_importers


def _import_backends() -> None:
    from .. import models

    import_modules(models)
    from ..hil import recording_backend  # noqa: F401  drivers of devices are loaded one by one


def _import_workloads() -> None:
    from . import workloads

    import_modules(workloads)


set_module_importers(backends=_import_backends, workloads=_import_workloads)
