"""Catalog entry and kernel families of a fitted GPU as files, and the report of the fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....models.calibration.robust_constants import FittedConstant
from ....models.compute.kernels import FORM, KernelFamily
from ....reports.numbers import three_digits
from ...config.reading.tree import NumberSource
from .catalog_entry import SettingsBeforeFit, entry_lines, entry_value, kept_value, parameter_text
from .gpu_fit import CONSTANTS, MAIN, OTHERS, SCALED, TILES, GpuFit
from .gpu_rows import PRODUCT, GpuRows

STREAMS = {"7": 128, "8": 128, "9": 128, "10": 128, "12": 128}
"""Largest number of kernels that run at the same time, by compute capability (resident grids, CUDA
C++ Programming Guide 12)."""
CLOSE = 0.02  # half of an interval: what a recording tells well
TOLD_BY = "told by the GPU (libcuda, NVML)"


def facts_as_settings(facts: Mapping[str, str]) -> dict[str, str]:
    """Settings that a GPU reported about itself, by dotted name, in the form of a file.

    >>> facts_as_settings({"gpu_processors": "132", "gpu_memory_khz": "2619000",
    ...     "gpu_bus_bits": "5120", "gpu_khz": "1980000"})
    {'bandwidth': '3.352 TB/s', 'chip.processors': '132', 'chip.clock': '1.98 GHz'}
    """
    known = {k: float(v) for k, v in facts.items() if _is_number(v)}
    found = {}
    if "gpu_memory" in known:
        found["memory"] = f"{known['gpu_memory']:.0f} B"
    if {"gpu_memory_khz", "gpu_bus_bits"} <= set(known):  # two transfers a cycle
        rate = 2e3 * known["gpu_memory_khz"] * known["gpu_bus_bits"] / 8
        found["bandwidth"] = f"{rate / 1e12:.4g} TB/s"
    if "gpu_processors" in known:
        found["chip.processors"] = f"{known['gpu_processors']:.0f}"
    if "gpu_khz" in known:
        found["chip.clock"] = f"{known['gpu_khz'] / 1e6:.4g} GHz"
    if "gpu_cache" in known:
        found["chip.cache"] = f"{known['gpu_cache']:.0f} B"
    if facts.get("gpu_major", "") in STREAMS:
        found["streams"] = str(STREAMS[facts["gpu_major"]])
    if "gpu_copy_engines" in known:
        found["copy_engines"] = f"{known['gpu_copy_engines']:.0f}"
    if "gpu_most_watts" in known:
        found["power"] = f"{known['gpu_most_watts']:.0f} W"
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def entry_constants(fit: GpuFit) -> dict[str, FittedConstant]:
    """Fitted constants of the catalog entry itself, by name."""
    return {
        c.name: c for stage, several in fit.constants.items() if stage not in CONSTANTS
        for c in several
    }  # fmt: skip


def gpu_entry_text(
    name: str, before: SettingsBeforeFit, reported: Mapping[str, str], rows: GpuRows, fit: GpuFit,
    kernels: str, date: str,
) -> str:  # fmt: skip
    """Text of a catalog file with the new entry.

    Parameters
    ----------
    reported : settings that the GPU reported about itself
    kernels : file of its kernel families
    """
    fitted = entry_constants(fit)
    error = _error_of(fit, PRODUCT)
    values: dict[str, str] = {}
    keys = [*before.texts, *(k for k in fitted if k not in before.texts)]
    for key in dict.fromkeys(keys):
        if key == "kernels" or key in OTHERS:
            continue
        if key in fitted and fitted[key].is_determined:
            c = fitted[key]
            where = f"{rows.where}; {three_digits(100 * c.width)} % to either side hold 90 %"
            source = NumberSource("fitted", where, date, error, _note(key, fit))
            text = parameter_text(key, c.value)
        else:
            start = fitted[key].value if key in fitted else None
            text, source = kept_value(key, before, rows.where, start)
            if reported.get(key) == text and before.source_of(key, text) is None:
                source = NumberSource("measured", TOLD_BY, date)
        values[key] = entry_value(text, source)
    tiles = fit.model.settings.get(TILES, 0)
    if SCALED in fit.constants and TILES not in before.texts and tiles:
        where = f"{rows.where}; errors of GEMMs are smaller if complete tiles are assumed"
        values[TILES] = entry_value(str(tiles), NumberSource("fitted", where, date))
    where = f"{rows.where}; the file gives the error of each family"
    values["kernels"] = entry_value(kernels, NumberSource("fitted", where, date))
    head = ["# Fitted by foretrace fit gpu.", "gpu:", f"  {name}:"]
    return "\n".join([*head, *entry_lines(values)]) + "\n"


def _note(key: str, fit: GpuFit) -> str:
    """Note for the catalog entry on how a fitted constant, or its error, was obtained."""
    if key.startswith("peaks."):
        return f"assumes the efficiency of {MAIN}, so it is not the datasheet's peak"
    errors = fit.errors.get(PRODUCT)
    if errors is None or not len(errors.held):
        return "nothing was held out"
    return f"median error of {len(errors.held)} held-out GEMMs"


def _error_of(fit: GpuFit, family: str) -> str:
    errors = fit.errors.get(family)
    return f"{three_digits(100 * errors.error)} %" if errors is not None else ""


def kernels_text(families: Mapping[str, KernelFamily]) -> str:
    """Text of the file of kernel families."""
    told = {n: f.as_plain_data() for n, f in families.items()}
    return json.dumps({"form": FORM, "families": told}, indent=1) + "\n"


def gpu_report(rows: GpuRows, fit: GpuFit, round_trip: dict[str, Any]) -> dict[str, Any]:
    """Fit of a GPU as plain data, for ``--json``."""
    stages = [
        {
            "name": stage or "products",
            "parameters": [_constant_facts(stage, c) for c in constants],
            "errors": _stage_errors(stage, fit),
        }
        for stage, constants in fit.constants.items()
    ]
    every = [_constant_facts(stage, c) for stage, cs in fit.constants.items() for c in cs]
    return {
        "where": rows.where,
        "spread": rows.spread,
        "fits": stages,
        "told": [p["name"] for p in every if p["width"] is not None and p["width"] <= CLOSE],
        "worse": [p["text"] for p in every if p["width"] is not None and p["width"] > CLOSE],
        "kept": [p["name"] for p in every if p["width"] is None],
        "left": list(fit.left),
        "round_trip": round_trip,
    }


def _constant_facts(stage: str, c: FittedConstant) -> dict[str, Any]:
    own = stage in CONSTANTS
    name = f"{stage} {c.name}" if own else c.name
    text = f"{c.value:.4g}" if own else parameter_text(c.name, c.value)
    sure = (
        f"+-{three_digits(100 * c.width)} %"
        if c.is_determined
        else "not fitted; the recording cannot determine it"
    )
    return {
        "name": name,
        "value": c.value,
        "width": c.width if c.is_determined else None,
        "text": f"{name}: {text} {sure}",
    }


def _stage_errors(stage: str, fit: GpuFit) -> str:
    name = stage if stage in CONSTANTS else PRODUCT if stage == "" else ""
    errors = fit.errors.get(name)
    if errors is None:
        return ""
    held = f"{three_digits(100 * errors.error)} % median of {len(errors.held)} held out"
    return f"{len(errors.fitted)} ops fitted on; {held if len(errors.held) else 'none held out'}"


def kernels_path(out: Path) -> Path:
    """Path of the file of kernel families, next to the entry.

    >>> kernels_path(Path("mine.yaml")).name
    'mine.kernels.json'
    """
    return out.with_suffix(".kernels.json")
