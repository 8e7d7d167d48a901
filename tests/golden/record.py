"""Record the golden set: what the tree answers to every run of ``runs.yaml``, exactly.

    .venv/bin/python tests/golden/record.py [--only GLOB] [--into FOLDER]

A run is a few commands in a fresh folder; of what they print (JSON) and leave there (JSON, parquet)
every number is kept as it is, every column as digests. ``README.md`` says what is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import io
import json
import logging
import os
import re
import resource
import shlex
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
from ruamel.yaml import YAML

HERE = Path(__file__).parent
KEPT = HERE / "kept"
LIBRARY = HERE.parents[1] / "scenarios/library"
INPUTS = {name: HERE / name for name in ("old", "sweeps", "recordings")}
INPUTS["inputs"] = HERE / "today/inputs"
LEFT_OUT = {"date", "host", "machine", "versions", "wall_seconds", "command", "run", "size"}
HASH = re.compile(r"(\w+-)?[0-9a-f]{12,64}")
FEW = 32  # rows of a table whose values are kept as they are
SKIPPED = ("manifest.json", "scenario.schema.json")
Commands = list[list[str]]


def all_runs() -> dict[str, Commands]:
    """Commands of every run, by its name: ``kind/name``."""
    said = YAML(typ="safe").load(HERE / "runs.yaml")
    runs = {name: [shlex.split(line) for line in lines] for name, lines in said.items()}
    for file in sorted(LIBRARY.glob("*.yaml")):
        runs[f"library/{file.stem}"] = [["run", file.stem, "--quick", "--no-cache"]]
    for file in sorted(INPUTS["old"].glob("[!_]*.yaml")):
        runs[f"old/{file.stem}"] = [["run", f"old/{file.name}", "--quick", "--no-cache"]]
    return dict(sorted(runs.items()))


# Running.


def record(commands: Commands) -> dict[str, Any]:
    """What commands print and leave, in a folder of their own."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        _lay_out(Path())
        said = {f"{k} {words[0]}": _run(words) for k, words in enumerate(commands)}
        found = {"said": said, "left": _left(Path("runs")), "made": _left(Path("made"))}
        return json.loads(json.dumps(found).replace(os.getcwd(), "HERE"))


def _lay_out(folder: Path) -> None:
    """Scenarios beside each other, and run folders of the tree that the set was recorded from."""
    for name, source in INPUTS.items():
        shutil.copytree(source, folder / name)
    (folder / "made").mkdir()
    with tarfile.open(HERE / "saved/saved.tar.xz") as kept:
        kept.extractall(folder, filter="data")


def _run(words: list[str]) -> dict[str, Any]:
    """Exit code of a command of foretrace, and its JSON where it prints any."""
    from foretrace.scenarios.cli import app

    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["foretrace", *words]),
        mock.patch.object(logging, "basicConfig"),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            app.main()
            code = 0
        except SystemExit as left:
            code = left.code or 0
    if code not in (0, 5) and "--json" not in words:
        sys.stderr.write(f"exit code {code} of: foretrace {shlex.join(words)}\n{err.getvalue()}")
    try:
        return {"exit": code, "json": without_noise(json.loads(out.getvalue()))}
    except json.JSONDecodeError:
        return {"exit": code}


def _left(folder: Path) -> dict[str, Any]:
    """Numbers of every file of JSON and digests of every table, by place without the run's hash."""
    found: dict[str, Any] = {}
    for file in sorted(folder.rglob("*.*")):
        parts = file.relative_to(folder).parts
        place = "/".join(part for part in parts if not HASH.fullmatch(part))
        assert place not in found, f"two runs left {place}"
        if file.suffix == ".json" and file.name not in SKIPPED:
            found[place] = without_noise(json.loads(file.read_text()))
        elif file.suffix == ".parquet":
            found[place] = table_digests(file)
    return found


# What is kept.


def without_noise(tree: Any) -> Any:
    """Without dates, places and versions; lists of things that have names by name."""
    if isinstance(tree, dict):
        return {
            key: without_noise(value)
            for key, value in tree.items()
            if key not in LEFT_OUT and not (isinstance(value, str) and HASH.fullmatch(value))
        }
    if isinstance(tree, list):
        return without_noise(_by_name(tree)) if _by_name(tree) else [without_noise(v) for v in tree]
    return tree


def _by_name(rows: list[Any]) -> dict[str, Any] | None:
    """Rows by their path or name, where each has one of its own; order is kept as a number."""
    for key in ("path", "name"):
        names = [row.get(key) if isinstance(row, dict) else None for row in rows]
        if rows and all(isinstance(n, str) for n in names) and len({*names}) == len(names):
            return {row[key]: {"place": at, **row} for at, row in enumerate(rows)}
    return None


def table_digests(file: Path) -> dict[str, Any]:
    """Rows of a table, and of each column its values where they are few, else digests."""
    found = duckdb.sql(f"select * from '{file}'").fetchnumpy()
    rows = len(next(iter(found.values()), ()))
    told = few_values if rows <= FEW else column_digests
    return {"rows": rows, "columns": {name: told(column) for name, column in found.items()}}


def few_values(column: np.ndarray) -> list[Any]:
    """The values of a short column, as JSON has them."""
    return [None if v is np.ma.masked else _plain(v) for v in column]


def column_digests(column: np.ndarray) -> dict[str, str]:
    """A digest of numbers; of texts one of what they say, and one of which are the same.

    Of numbers the type does not matter: whole ones are taken as int64, others as float64.
    """
    lacking = np.ma.getmaskarray(column)
    told = np.ma.getdata(column)[~lacking]
    gaps = {"lacking": _sha(lacking)} if lacking.any() else {}
    if told.dtype.kind in "biuf":
        return {"numbers": _sha(told.astype("<f8" if told.dtype.kind == "f" else "<i8")), **gaps}
    texts = [v if isinstance(v, str) else repr(_plain(v)) for v in told]
    codes, each = pd.factorize(np.array(texts, object))
    return {"texts": _sha("\n".join(each).encode()), "alike": _sha(codes.astype("<i8")), **gaps}


def _plain(value: Any) -> Any:
    """Arrays and structures of a cell as lists and dicts."""
    if isinstance(value, np.ndarray | list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _sha(data: bytes | np.ndarray) -> str:
    """The first 80 bits of a sha256: enough, and half as large."""
    raw = data if isinstance(data, bytes) else np.ascontiguousarray(data).tobytes()
    return hashlib.sha256(raw).hexdigest()[:20]


# Files.


def kept_file(name: str, folder: Path = KEPT) -> Path:
    """Where a run is kept."""
    return folder / f"{name}.json.gz"


def read(name: str, folder: Path = KEPT) -> dict[str, Any]:
    """What was recorded of a run."""
    return json.loads(gzip.decompress(kept_file(name, folder).read_bytes()))


def write(name: str, found: dict[str, Any], folder: Path = KEPT) -> None:
    """Keep a run: the same bytes each time, and floats with all their digits."""
    file = kept_file(name, folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, separators=(",", ":"), sort_keys=True)
    file.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def cpu_seconds() -> float:
    """User and system time of this process and those that it waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


def chosen(only: str) -> Iterator[tuple[str, Commands]]:
    """Runs whose names fit a glob."""
    return ((name, commands) for name, commands in all_runs().items() if fnmatch(name, only))


def main() -> None:
    """Record what is asked for."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--only", default="*", help="a glob of names: 'old/*'")
    asked.add_argument("--into", type=Path, default=KEPT)
    said = asked.parse_args()
    into = Path(os.path.abspath(said.into))
    for name, commands in chosen(said.only):
        before = cpu_seconds()
        write(name, record(commands), into)
        size = kept_file(name, into).stat().st_size
        print(f"{name:40} {cpu_seconds() - before:6.1f} CPU s {size:8} B", flush=True)


if __name__ == "__main__":
    main()
