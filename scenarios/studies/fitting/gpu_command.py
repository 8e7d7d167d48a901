"""``foretrace fit gpu``: the catalog entry, the file of kernel families and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....sim.errors import ScenarioError
from .bench import Bench
from .catalog_entry import SettingsBeforeFit, settings_before_fit
from .gpu_entry import (
    facts_as_settings,
    gpu_entry_text,
    gpu_report,
    kernels_path,
    kernels_text,
)
from .gpu_fit import fit_gpu
from .gpu_round_trip import gpu_round_trip
from .gpu_rows import GpuRows, gpu_rows

MOST = 12  # reasons that are printed; --json has all


@dataclass(frozen=True)
class FittedGpu:
    """Result of fitting a GPU: text of the catalog files, and a report.

    Parameters
    ----------
    entry, kernels : text of the catalog file, and of the file of kernel families
    kernels_path : path of the file of kernel families, to which the catalog entry refers
    report : the fit as plain data
    """

    entry: str
    kernels: str
    kernels_path: Path
    report: Mapping[str, Any]

    def lines(self) -> list[str]:
        """Lines of the printed report."""
        found = []
        for one in self.report["fits"]:
            found.append(f"{one['name']}: {one['errors']}".rstrip(": "))
            found += [f"  {p['text']}" for p in one["parameters"]]
        report = self.report
        found.append(f"determined within 2 %: {len(report['told'])} constants")
        found += [f"less certain: {text}" for text in report["worse"]]
        found += [f"not determined: {name}" for name in report["kept"]]
        found += [f"not fitted: {text}" for text in report["left"][:MOST]]
        if len(report["left"]) > MOST:
            found.append(f"not fitted: {len(report['left']) - MOST} more, see --json")
        for number, line in enumerate(report["round_trip"]["lines"]):
            found.append(f"{'' if number else 'round trip':14s} {line}")
        return found


def fitted_gpu(
    bench: Bench, files: Sequence[str], start: str, know: Sequence[str], name: str, date: str,
    out: Path | None,
) -> FittedGpu:  # fmt: skip
    """Fit a GPU to recordings of its ops, and simulate the ops with the new entry.

    Parameters
    ----------
    start : catalog entry to start from; "" for none
    know : known settings, ``NAME=VALUE``
    name : name of the new entry
    out : file of the entry; the file of kernel families goes next to it

    Raises
    ------
    ScenarioError
        A required setting is unknown, or simulation and fit disagree.
    """
    rows = gpu_rows(files)
    before, told = _known_before(rows, start, know, bench.catalogs)
    found = fit_gpu(rows, before.settings)
    beside = kernels_path((out or Path(f"{name}.yaml")).resolve())

    def entry(file: str, called: str = "fitted") -> str:
        return gpu_entry_text(called, before, told, rows, found, file, date)

    back, lines = gpu_round_trip(bench, rows, found, entry)
    back.require_simulation_equals_fit()
    report = gpu_report(rows, found, {**back.to_dict(), "lines": lines})
    kernels = kernels_text(found.model.families)
    return FittedGpu(entry(str(beside), name), kernels, beside, report)


def _known_before(
    rows: GpuRows, start: str, know: Sequence[str], catalogs: Sequence[Path]
) -> tuple[SettingsBeforeFit, dict[str, str]]:
    """Settings before the fit, and those that the GPU itself reported."""
    told = facts_as_settings(rows.facts)
    known = settings_before_fit("gpu", start, know, catalogs)
    missing = [f"{k}={v}" for k, v in told.items() if k not in known.texts]
    if not start and not know:
        raise ScenarioError(
            "fit gpu: a recording cannot tell the peak from the efficiency of GEMMs; give the "
            "GPU's entry with --start, or its datasheet with --know peaks.bf16='... Tflop/s'"
        )
    return settings_before_fit("gpu", start, [*know, *missing], catalogs), told
