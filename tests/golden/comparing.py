"""Compare two records of a run: numbers exactly, texts unless the migration table lists them.

``migrations.yaml`` has four lists; ``runs`` is a glob of runs (all unless said), paths are regular
expressions that a whole path has to match, and each entry says why:

- ``renamed``: ``{was, now, why}``; ``now`` may use groups of ``was``. The number must be the same.
- ``texts``: ``{path, why}``; the path of the tree before, after it was renamed. Only what it says
  may differ.
- ``gone``, ``new``: ``{path, why}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

LISTS = ("renamed", "texts", "gone", "new")
NONE = "nothing"
DAY_OF_FIT = re.compile(r"(foretrace fit [^;\"]*, )\d{4}-\d\d-\d\d")
DIGESTS = re.compile(r".*\.parquet/columns/.*/(numbers|alike|lacking)")
Table = Mapping[str, list[dict[str, str]]]


def read_table(file: Path = Path(__file__).parent / "migrations.yaml") -> Table:
    """The migration table; every entry says why."""
    said = YAML(typ="safe").load(file)
    assert sorted(said) == sorted(LISTS), f"{file}: has {sorted(said)}; write {sorted(LISTS)}"
    for name in LISTS:
        for entry in said[name]:
            assert entry.get("why"), f"{file}: {name}: {entry} does not say why"
    return said


def differences(run: str, kept: Any, found: Any, table: Table) -> list[str]:
    """A line for each number or text of a run that is another one now."""
    mine = {name: [e for e in table[name] if fnmatch(run, e.get("runs", "*"))] for name in LISTS}
    before = {_renamed(path, mine["renamed"]): (path, v) for path, v in leaves(kept).items()}
    after = leaves(found)
    told = []
    for path in sorted({*before, *after}):
        was_at, was = before.get(path, (path, None))
        now = after.get(path)
        if was is None or now is None:
            if not _listed(path if was is None else was_at, mine["new" if was is None else "gone"]):
                told.append(_line(run, was_at, was, now))
        elif was != now and not (
            is_text(path, was) and is_text(path, now) and _listed(path, mine["texts"])
        ):
            told.append(_line(run, was_at if was_at == path else f"{was_at} -> {path}", was, now))
    return told


def unused(runs: Iterable[str], paths_of: Callable[[str], set[str]], table: Table) -> list[str]:
    """Entries of the table that no path of the runs matches; the first runs are asked first."""
    told = []
    for name, key in (("renamed", "was"), ("gone", "path")):
        for entry in table[name]:
            fits = re.compile(entry[key]).fullmatch
            asked = (run for run in runs if fnmatch(run, entry.get("runs", "*")))
            if not any(fits(path) for run in asked for path in paths_of(run)):
                told.append(f"{name}: {entry}")
    return told


def leaves(tree: Any, path: str = "") -> dict[str, str]:
    """Every value by its path, as JSON writes it; an empty list or mapping is a value.

    The day on which a fit was run is left out.
    """
    if not isinstance(tree, dict | list) or not tree:
        return {path.removeprefix("/"): DAY_OF_FIT.sub(r"\1DAY", json.dumps(tree))}
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return {k: v for key, value in items for k, v in leaves(value, f"{path}/{key}").items()}


def is_text(path: str, value: str) -> bool:
    """Whether a value is words: a string that is no digest of numbers."""
    return value.startswith('"') and not DIGESTS.fullmatch(path)


def _renamed(path: str, entries: list[dict[str, str]]) -> str:
    for entry in entries:
        if re.fullmatch(entry["was"], path):
            path = re.sub(entry["was"], entry["now"], path, count=1)
    return path


def _listed(path: str, entries: list[dict[str, str]]) -> bool:
    return any(re.fullmatch(entry["path"], path) for entry in entries)


def _line(run: str, path: str, was: str | None, now: str | None) -> str:
    return f"{run}: {path}: was {was or NONE}, is {now or NONE}"
