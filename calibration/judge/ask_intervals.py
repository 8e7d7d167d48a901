"""Check D13 with `foretrace run`: 90 % intervals on measured sources that were not used.

    python -m foretrace.calibration.judge.ask_intervals [PART]

Each source of measured ops on each GPU is left out in turn, as in ``intervals.py``. Constants and
error intervals of the others are written to a kernel file, which a catalog entry of the GPU names.
The source's rows become a trace (``rows/asked.py``), and the scenario states that ops were measured
in loops (``caches: alone``). The run's op table gives the interval of each op, and the run the
interval of their sum. With ``PART``, only sources whose GPU or name contains it. Rows without an
equivalent operator count as left out.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from foretrace.models.compute.kernels import FORM, Evidence, KernelFamily
from foretrace.scenarios.config.catalog import installed
from foretrace.scenarios.config.reading.tree import to_dict

from ..fit.kernels import NAMES
from ..rows.asked import RunTimes, asked, operator
from ..rows.kernel_rows import Group, groups
from .intervals import Judged, line, unseen_families, unseen_products

EACH = 300  # rows of a group, those of its sample that come first
CHAIN = "[{use: roofline, caches: alone}, recorded]"  # rows of a table follow their like
LEFT_OUT = ("memory", "power", "kernels")  # of a catalog entry


class Source(NamedTuple):
    """Rows of one source on one GPU, and the constants of their families from other sources."""

    gpu: str
    name: str
    families: dict[str, KernelFamily]
    groups: list[Group]


class Result(NamedTuple):
    """Result of a run for one source.

    Parameters
    ----------
    judged : result by family
    whole : True if the run's interval contains the sum of the measured times
    left : number of rows without an equivalent operator
    """

    source: Source
    judged: list[Judged]
    whole: bool
    left: int


def sources(part: str = "", families: Iterable[str] = ()) -> Iterator[Source]:
    """Sources whose GPU or name contains ``part``, with constants from other sources."""
    seen = [g for g in groups() if not g.aside]
    wanted = [g for g in seen if not families or g.family in families]
    found: dict[tuple[str, str], Source] = {}
    known = [
        (g, replace(family, evidence=Evidence(quantiles=spread)))
        for g, family, spread in unseen_families(wanted)
    ]
    known += [
        (g, KernelFamily(evidence=Evidence(quantiles=spread)))
        for g, spread in unseen_products(wanted)
    ]
    for g, family in known:
        if part in f"{g.gpu} {g.source}":
            one = found.setdefault((g.gpu, g.source), Source(g.gpu, g.source, {}, []))
            one.families[g.family] = family
            one.groups.append(g)
    yield from found.values()


def entry(gpu: str, file: Path) -> dict[str, Any]:
    """Catalog entry of a GPU with another kernel file."""
    settings = to_dict(installed().entry("gpu", NAMES[gpu]))
    return {k: v for k, v in settings.items() if k not in LEFT_OUT} | {"kernels": str(file)}


def ask(source: Source) -> Result:
    """Run all rows of a source, one family after another."""
    told = [[operator(s) for s in g.shapes[:EACH]] for g in source.groups]
    rows = [np.flatnonzero([op is not None for op in ops]) for ops in told]
    took = [g.seconds[at] for g, at in zip(source.groups, rows, strict=True)]
    ops = [op for some in told for op in some if op is not None]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "unseen.json"
        families = {n: f.as_plain_data() for n, f in source.families.items()}
        file.write_text(json.dumps({"form": FORM, "families": families}))
        found = asked(
            ops, np.concatenate(took), here=NAMES[source.gpu], there="unseen",
            chain=CHAIN, entries={"unseen": entry(source.gpu, file)},
        )  # fmt: skip
    judged = [*_judged(source, took, found)]
    whole = found.interval is not None and holds(found, sum(t.sum() for t in took))
    left = sum(len(ops) for ops in told) - sum(map(len, rows))
    return Result(source, judged, whole, left)


def holds(found: RunTimes, measured: float) -> bool:
    """True if a run's interval contains a measured sum; the run adds gaps to it."""
    assert found.interval is not None
    gaps = found.sum - found.seconds.sum()
    return bool(found.interval[0] <= measured + gaps <= found.interval[1])


def _judged(source: Source, took: list[np.ndarray], found: RunTimes) -> Iterator[Judged]:
    cuts = np.cumsum([len(t) for t in took])[:-1]
    columns = (np.split(c, cuts) for c in (found.seconds, found.low, found.high))
    for g, measured, seconds, low, high in zip(source.groups, took, *columns, strict=True):
        inside = (seconds * low <= measured) & (measured <= seconds * high)
        both = float((seconds * low).sum()), float((seconds * high).sum())
        yield Judged(
            g.family, g.gpu, g.source, inside, np.abs(np.log(measured / seconds)),
            np.log(high / low), both[0] <= measured.sum() <= both[1],
        )  # fmt: skip


def main() -> None:
    results = []
    for source in sources(*sys.argv[1:2]):
        results.append(ask(source))
        rows = sum(len(j.held) for j in results[-1].judged)
        word = "inside" if results[-1].whole else "OUTSIDE"
        print(f"{source.gpu} {source.name}: {rows} rows, {results[-1].left} left out, "
              f"sum of the run {word}", flush=True)  # fmt: skip
    every = [j for one in results for j in one.judged]
    print("| family | rows | held | sums held | width |\n| --- | ---: | ---: | ---: | ---: |")
    for name in dict.fromkeys(j.family for j in every):
        print(line(name, [j for j in every if j.family == name]))
    print(line("**all**", every))
    print(f"whole runs: {sum(one.whole for one in results)} of {len(results)} sums inside")


if __name__ == "__main__":
    main()
