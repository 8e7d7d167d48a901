"""``foretrace doctor``: what is installed, what is missing, its fix, caches, disk, workers."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .app import app
from .terminal.common import Json, Out, print_json

CORE = "core"  # the packages that foretrace itself needs


@app.command()
def doctor(
    out: Out = Path("runs"),
    workers: Annotated[
        str | None, typer.Option(help="Also test these workers: local:2, dask://HOST:PORT.")
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option(help="Also write the result to this file, for a bug report.")
    ] = None,
    hardware: Annotated[
        bool, typer.Option(help="List devices, what is missing, and the next command.")
    ] = False,
    json: Json = False,
) -> None:
    """Report what works on this machine, and how to install what is missing."""
    import json as text

    if hardware:
        _print_hardware(json)
        return
    told = installation_checks(out, workers)
    if bundle is not None:
        bundle.write_text(text.dumps(told, indent=1) + "\n")
    if json:
        print_json(told)
        return
    host = told["host"]
    typer.echo(f"foretrace {host['foretrace']}   python {host['python']}   {host['system']}   "
               f"{host['cores']} cores   {_byte_count_text(host['free_memory'])} free")  # fmt: skip
    for row in told["checks"]:
        typer.echo(f"{row['state']:<6}{row['name']:<15}{row['told']}")
    if bundle is not None:
        typer.echo(f"wrote {bundle}; read it before you send it", err=True)


def _print_hardware(json: bool) -> None:
    """Print findings about devices, one per line, each with the command that fixes it."""
    from dataclasses import asdict

    from ...hil.inventory.inventory import inventory

    found = inventory()
    if json:
        print_json({"findings": [asdict(f) for f in found]})
        return
    for one in found:
        typer.echo(f"{one.state:<6}{one.name:<15}{one.observation}")
        if one.command:
            typer.echo(f"{'':21}$ {one.command}")


def installation_checks(out: Path, workers: str | None = None) -> dict[str, Any]:
    """All checks of this installation, as ``--json`` prints them.

    Parameters
    ----------
    out : folder of all runs
    workers : workers to test; None for none
    """
    from importlib.metadata import version

    from ..studies.building.limits import free_memory
    from ..studies.workers.workers import usable_cores

    host = {
        "foretrace": version("foretrace"),
        "python": platform.python_version(),
        "system": f"{platform.system().lower()} {platform.release()} {platform.machine()}",
        "cores": usable_cores(),
        "free_memory": free_memory(),
    }
    needed = _packages_by_extra()
    extras = (_packages_row(name, packages) for name, packages in needed.items() if name)
    checks = [
        *(_packages_row(CORE, needed[""]), _engine_row(), *extras, _drivers_hint_row()),
        *(_cache_sizes_row(out), _disk_space_row(out), *_installed_plugin_rows()),
    ]
    if workers is not None:
        checks.append(_workers_row(workers))
    return {"host": host, "checks": checks}


def _check_row(name: str, good: bool | None, text: str) -> dict[str, str]:
    state = {True: "ok", False: "off", None: "bad"}[good]
    return {"name": name, "state": state, "told": text}


def _packages_by_extra() -> dict[str, tuple[str, ...]]:
    """Required packages by extra ("" for the core), from the metadata of the installed package."""
    import re
    from importlib.metadata import requires

    found: dict[str, tuple[str, ...]] = {"": ()}
    for line in requires("foretrace") or ():
        name = re.match(r"[\w.-]+", line)
        extra = re.search(r"extra == ['\"](\w+)", line)
        key = extra[1] if extra else ""
        found[key] = (*found.get(key, ()), name[0] if name else line)
    return found


def _installed_and_missing(names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Installed packages with their versions, and missing packages."""
    from importlib.metadata import PackageNotFoundError, version

    found, absent = [], []
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            absent.append(name)
    return found, absent


def _engine_row() -> dict[str, str]:
    import os

    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        return _check_row(
            "engine", False, "interpreted and slow: NUMBA_DISABLE_JIT is set; unset it"
        )
    try:
        import numba
    except ImportError as error:
        return _check_row("engine", False, f"interpreted and slow: {error}; pip install numba")
    from ...sim.kernel.jit import KNOWN, LINKED

    if not LINKED:
        slow = f"numba {numba.__version__} compiles it for a minute in each process"
        cure = f"unset FORETRACE_PLAIN_NJIT, or pip install '{KNOWN}'"
        return _check_row("engine", False, f"{slow}; {cure}")
    return _check_row("engine", True, "compiled")


def _packages_row(name: str, packages: tuple[str, ...]) -> dict[str, str]:
    """Row on whether the packages of an extra are installed; the core needs all of its own."""
    found, absent = _installed_and_missing(packages)
    if not absent:
        return _check_row(name, True, ", ".join(found))
    core = name == CORE
    cure = f"{', '.join(absent)} missing; pip install {'foretrace' if core else ' '.join(absent)}"
    return _check_row(name, None if core else False, cure)


def _drivers_hint_row() -> dict[str, str]:
    """Hint to test drivers; they are not tested here, since some take long."""
    return _check_row(
        "drivers", True, "foretrace drivers tests each and says how to install what is missing"
    )


def _cache_sizes_row(out: Path) -> dict[str, str]:
    """Row with the sizes of stored sweep points, saved runs and compiled kernels; always ok."""
    from ..studies.folders.saved_runs import folder_size, saved_runs, sweep_cache_folders

    points = sum(map(folder_size, sweep_cache_folders(out)))
    runs = saved_runs(out)
    kept = sum(folder_size(s.folder) for s in runs)
    kernels = sum(f.stat().st_size for f in _cached_kernel_files())
    return _check_row(
        "cache",
        True,
        f"points of sweeps {_byte_count_text(points)} (foretrace rm --cache), {len(runs)} runs "
        f"{_byte_count_text(kept)} in {out}, compiled kernels {_byte_count_text(kernels)}",
    )


def _cached_kernel_files() -> list[Path]:
    import os

    own = os.environ.get("NUMBA_CACHE_DIR")
    root = Path(own) if own else Path(__file__).parents[2] / "sim"
    return [f for pattern in ("*.nbc", "*.nbi") for f in root.rglob(pattern)]


def _disk_space_row(out: Path) -> dict[str, str]:
    import os
    import shutil

    place = out.resolve()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if not os.access(place, os.W_OK):
        return _check_row("disk", None, f"{place} cannot be written; choose another --out")
    return _check_row("disk", free > 1e9, f"{_byte_count_text(free)} free at {place}")


def _installed_plugin_rows() -> list[dict[str, str]]:
    """Row for each plug-in of installed packages."""
    from ..config.installed_plugins import GROUPS, installed_plugin_problems

    rows = []
    for group in GROUPS:
        for name, problem in installed_plugin_problems(group).items():
            rows.append(
                _check_row("plug-in", None if problem else True, problem or f"{group}: {name}")
            )
    return rows


def _workers_row(text: str) -> dict[str, str]:
    from ...sim.errors import ScenarioError
    from ..studies.workers.worker_pool import closing_pool
    from ..studies.workers.workers import make_workers, workers_option

    try:
        crew = make_workers(workers_option(text, ""))
    except ScenarioError as error:
        return _check_row("workers", None, str(error))
    with closing_pool(crew):
        (answer,) = [found for _, found in crew.run(worker_state, [{"set": {}}])]
    if answer is None:
        return _check_row("workers", None, f"{crew.name}: workers die when they get a task")
    return _check_row("workers", True, f"{crew.name}, python {answer['python']} there")


def worker_state(task: dict[str, Any]) -> dict[str, Any]:
    """Result of a test task: the task, and the Python version of the worker that ran it."""
    return {**task, "python": sys.version.split()[0]}


def _byte_count_text(count: float | None) -> str:
    from ...reports.numbers import format_quantity

    return format_quantity(count, "B")
