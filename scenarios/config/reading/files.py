"""Files that a scenario names: their settings, and digests of their content.

Paths are relative to the scenario file that names them. Runs and points are identified by the
content of files, not by their location.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from glob import glob
from pathlib import Path as File
from typing import Any

from ..schema import SECTIONS
from .tree import Path, Plain, dotted_path_text

BUNDLED = "foretrace:"
WRITTEN = ("hil.keep_recording",)  # output folder: a run reads nothing there
CHOSEN = ("backends", "media", "processes")  # sections whose entries choose a class by ``use``
SETTING = "file"  # setting of a backend or process that names a file
LINKS = (("use", "*", SETTING), ("*", SETTING))  # paths of it in a chain, below the glob


def named_files(scenario: Plain) -> Iterator[tuple[Path, str]]:
    """Path and value of every setting that names a file.

    Parameters
    ----------
    scenario : scenario as plain values

    Examples
    --------
    >>> gpus = {"node*.gpu*": {"use": "table", "file": "t.csv"}}
    >>> told = {"workload": {"trace": "r.json"}, "backends": gpus}
    >>> [(dotted_path_text(p), f) for p, f in named_files(told)]
    [('workload.trace', 'r.json'), ('backends.node*.gpu*.file', 't.csv')]
    """
    if not isinstance(scenario, Mapping):
        return
    for key, entry in SECTIONS.items():
        for below in entry.files():
            yield from _texts_at(scenario, (key, *below.split(".")))
    for key in CHOSEN:
        yield from _texts_at(scenario, (key, "*", SETTING))
    for path in LINKS:
        yield from _texts_at(scenario, ("backends", "*", *path))
    for i, variant in enumerate(_keyed_items(scenario.get("what_if"))):
        yield from _files_of_variant(variant, ("what_if", i))
    yield from _files_of_sweep(scenario.get("sweep"))


def setting_names_file(setting: str) -> bool:
    """True if a setting names a file.

    >>> settings = ("workload.trace", "backends.node*.gpu*.file", "cluster.nodes")
    >>> tuple(map(setting_names_file, settings))
    (True, True, False)
    >>> setting_names_file("jobs.a.workload.trace"), setting_names_file("jobs.a.workload.starts.x")
    (True, False)
    """
    head, _, below = setting.partition(".")
    if head in CHOSEN:
        return below.endswith(f".{SETTING}")
    named = SECTIONS[head].files() if head in SECTIONS else ()
    return any(_fits_pattern(below.split("."), name.split(".")) for name in named)


def _fits_pattern(words: list[str], pattern: list[str]) -> bool:
    """True if a path matches a pattern, in which ``*`` is any one word."""
    same = (p in ("*", w) for w, p in zip(words, pattern, strict=False))
    return len(words) == len(pattern) and all(same)


def _texts_at(data: Plain, path: Path, done: Path = ()) -> Iterator[tuple[Path, str]]:
    """Path and text of each text value at a path, in which ``*`` stands for every key or item."""
    if not path:
        if isinstance(data, str):
            yield done, data
        return
    head, rest = path[0], path[1:]
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(data, Mapping):
        inner = data.items() if head == "*" else [(head, data[head])] if head in data else ()
    elif isinstance(data, list | tuple) and head == "*":
        inner = enumerate(data)
    for key, value in inner:
        yield from _texts_at(value, rest, (*done, key))


def _keyed_items(value: Plain) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else ()


def _files_of_variant(variant: Plain, at: Path) -> Iterator[tuple[Path, str]]:
    """Files that a variant names, in its backends and in its ``set``."""
    if not isinstance(variant, Mapping):
        return
    for below in ((SETTING,), *LINKS):
        for path, value in _texts_at(variant, ("backends", "*", *below)):
            yield (*at, *path), value
    settings = variant.get("set")
    for setting, value in settings.items() if isinstance(settings, Mapping) else ():
        if isinstance(value, str) and setting_names_file(str(setting)):
            yield (*at, "set", setting), value
        else:
            whole = named_files({str(setting): value})  # a section or backend set as a whole
            yield from (((*at, "set", *path), text) for path, text in whole)


def _files_of_sweep(sweep: Plain) -> Iterator[tuple[Path, str]]:
    """File names among the values of a sweep."""
    vary = sweep.get("vary") if isinstance(sweep, Mapping) else None
    for paths, values in vary.items() if isinstance(vary, Mapping) else ():
        names = [setting_names_file(p.strip()) for p in str(paths).split(",")]
        for i, value in enumerate(_keyed_items(values)):
            at: Path = ("sweep", "vary", paths, i)
            if isinstance(value, str) and any(names):
                yield at, value
            for j, one in enumerate(_keyed_items(value)):
                if j < len(names) and names[j] and isinstance(one, str):
                    yield (*at, j), one


def with_bare_file_names(scenario: Plain) -> Plain:
    """Scenario with file paths reduced to file names, since folders do not change the answer.

    >>> with_bare_file_names({"workload": {"trace": "/some/where/r.json"}})
    {'workload': {'trace': 'r.json'}}
    """
    found = dict(named_files(scenario))

    def short(value: Plain, at: Path) -> Plain:
        if at in found:
            return value if value.startswith(BUNDLED) else os.path.basename(value)
        if isinstance(value, Mapping):
            return {k: short(v, (*at, k)) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [short(v, (*at, i)) for i, v in enumerate(value)]
        return value

    return short(scenario, ())


def file_digests_by_setting(scenario: Plain) -> dict[str, str]:
    """SHA-256 of each input file by setting, and of the code of plug-ins.

    Bundled files are covered by the version. The digest of an unreadable file is "".
    """
    named = {dotted_path_text(path): name for path, name in named_files(scenario)}
    found = {setting: content_digest(name) for setting, name in named.items()}
    found |= {
        f"beside {setting}": "".join(content_digest(str(table)) for table in tables)
        for setting, name in named.items()
        if setting.endswith(".trace") and (tables := _step_times_beside(name))
    }
    return {k: v for k, v in found.items() if v is not None and k not in WRITTEN} | _code_digests(
        scenario
    )


def _step_times_beside(name: str) -> list[File]:
    """Step-time tables next to the files of a trace; a run reads them too."""
    from ....traces.step_times import tables_next_to

    return [] if name.startswith(BUNDLED) else tables_next_to(sorted(map(File, glob(name))))


def content_digest(name: str) -> str:
    """SHA-256 of a file, of the files that match a glob, or of a folder; "" if there is none."""
    if name.startswith(BUNDLED):
        return BUNDLED
    files = [f for path in sorted(glob(name)) or [name] for f in _files_below(File(path))]
    told = [(f.name, _content_digest(str(f), *_change_stamp(f))) for f in files]
    return hashlib.sha256(repr(told).encode()).hexdigest() if told else ""


def _files_below(path: File) -> list[File]:
    every = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [file for file in every if file.is_file()]


def _change_stamp(file: File) -> tuple[int, int]:
    """Modification time and size of a file, which identify its version."""
    stat = file.stat()
    return stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=1024)
def _content_digest(file: str, _written: int, _size: int) -> str:
    try:
        with open(file, "rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return ""


def _code_digests(scenario: Plain) -> dict[str, str]:
    """SHA-256 of the source files of plug-in backends, processes, media and workloads, by name."""
    from ..settings import known_backends, known_media, known_processes, known_workloads

    jobs = scenario.get("jobs") or {}
    known = {**known_workloads(), **known_backends(), **known_processes(), **known_media()}
    steering = [scenario.get("processes"), *(j.get("processes") for j in jobs.values())]
    choices = (scenario.get("backends"), scenario.get("media"), *steering)
    used = {name for chosen in choices for name in _names_in_use(chosen)}
    used |= {str(w.get("type")) for j in (scenario, *jobs.values()) if (w := j.get("workload"))}
    files = {name: _source_file(known[name]) for name in sorted(used & known.keys())}
    return {f"code of {name}": content_digest(file) for name, file in files.items() if file}


def _names_in_use(chosen: Plain) -> Iterator[str]:
    every = chosen.values() if isinstance(chosen, Mapping) else _keyed_items(chosen)
    for one in every:
        name = one.get("use") if isinstance(one, Mapping) else one
        if isinstance(name, str):
            yield name
        elif isinstance(name, list | tuple):
            yield from _names_in_use(name)


def _source_file(cls: type) -> str:
    """Source file of a plug-in's class; "" for built-in ones, whose code has its own digest."""
    if cls.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return ""
    try:
        return inspect.getsourcefile(cls) or ""
    except TypeError:
        return ""
