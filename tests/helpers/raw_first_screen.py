"""What the first screen of a recording must say: from the raw JSON and docs/definitions.md alone.

Written by someone who had not read the code that it judges; nothing of foretrace is imported.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

KERNEL, COPY = {"kernel"}, {"memcpy", "gpu_memcpy", "memset", "gpu_memset"}
HOST = {"cpu_op", "operator", "cuda_runtime", "runtime", "cuda_driver", "user_annotation"}
KINDS = ["compute", "collective", "copy"]
COLLECTIVE = "nccl|rccl"  # as communication kernels of both vendors are called


def events_of(path: Path) -> pd.DataFrame:
    """Complete events of a file: ``cat, name, start, end`` (µs), those of a GPU with a kind."""
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    told = json.loads(text)["traceEvents"]
    rows = pd.DataFrame([e for e in told if e.get("ph") == "X" and "cat" in e])
    first = rows["ts"].min()
    made = pd.DataFrame({"cat": rows["cat"].str.lower(), "name": rows["name"].astype(str)})
    made["start"] = (rows["ts"] - first).round(3)  # µs with three digits: sums stay comparable
    made["end"] = (made["start"] + rows["dur"]).round(3)
    made.attrs["first"] = first
    kernels = made["cat"].isin(KERNEL)
    talks = kernels & made["name"].str.contains(COLLECTIVE, case=False)
    made["kind"] = None
    made.loc[kernels, "kind"] = "compute"
    made.loc[talks, "kind"] = "collective"
    made.loc[made["cat"].isin(COPY), "kind"] = "copy"
    return made


def in_use(events: pd.DataFrame, extra: pd.DataFrame | None = None) -> pd.DataFrame:
    """Pieces of time with what runs in each: ``length`` (µs), and a count for each kind."""
    spans = events.loc[events["kind"].notna(), ["kind", "start", "end"]]
    if extra is not None:
        spans = pd.concat([spans, extra])
    edges = pd.concat([
        pd.DataFrame({"at": spans["start"], "kind": spans["kind"], "more": 1}),
        pd.DataFrame({"at": spans["end"], "kind": spans["kind"], "more": -1}),
    ])  # fmt: skip
    counts = edges.pivot_table(index="at", columns="kind", values="more", aggfunc="sum")
    counts = counts.fillna(0).cumsum().reindex(columns=[*KINDS, "late"], fill_value=0)
    counts["length"] = pd.Series(counts.index, counts.index).shift(-1) - counts.index
    return counts.iloc[:-1]


def collectives(ranks: list[pd.DataFrame]) -> pd.DataFrame:
    """The k-th communication kernel of every rank: its start and end on a common clock, µs."""
    rows = []
    for rank, events in enumerate(ranks):
        own = events[events["kind"] == "collective"].sort_values("start").reset_index()
        clock = events.attrs["first"] - ranks[0].attrs["first"]
        rows.append(pd.DataFrame({
            "number": own.index, "rank": rank, "start": own["start"] + clock,
            "end": own["end"] + clock, "own": own["start"],
        }))  # fmt: skip
    return pd.concat(rows, ignore_index=True)


def one_rank(events: pd.DataFrame, late: pd.DataFrame | None = None) -> dict[str, float]:
    """Numbers of one rank, µs: time of its kernels by kind, and what runs beside what.

    Parameters
    ----------
    late : ``start, end`` of its waits inside collectives, which are no communication
    """
    device = events[events["kind"].notna()]
    extra = None if late is None else late.assign(kind="late")[["kind", "start", "end"]]
    use = in_use(events, extra)
    compute, copy = use["compute"] > 0, use["copy"] > 0
    waits = use["late"] > 0
    talks = (use["collective"] > 0) & ~waits
    length = use["length"]
    by_kind = (device["end"] - device["start"]).groupby(device["kind"]).sum()
    return {
        **{f"sum.{kind}": float(by_kind.get(kind, 0.0)) for kind in KINDS},
        **{f"kernels.{kind}": float(length[use[kind] > 0].sum()) for kind in KINDS},
        "compute": float(length[compute].sum()),
        "exposed_communication": float(length[talks & ~compute].sum()),
        "overlapped_communication": float(length[talks & compute].sum()),
        "waiting": float(length[waits & ~talks & ~compute & ~copy].sum()),
        "busy": float(length[compute | (use["collective"] > 0)].sum()),
    }


def window(ranks: list[pd.DataFrame]) -> float:
    """From the first step mark of any rank to the last end of a step or of work it left, µs."""
    begins, ends = [], []
    for events in ranks:
        steps = events[
            events["name"].str.startswith("ProfilerStep") & (events["cat"] != "gpu_user_annotation")
        ]
        clock = events.attrs["first"] - ranks[0].attrs["first"]
        begins.append(clock + steps["start"].min())
        ends += [
            clock + steps["end"].max(),
            clock + events.loc[events["kind"].notna(), "end"].max(),
        ]
    return float(max(ends) - min(begins))


def first_screen(files: Iterable[Path]) -> dict[str, object]:
    """Numbers of all ranks of a recording, and who arrives last at each collective."""
    ranks = [events_of(path) for path in files]
    if len(ranks) == 1:
        alone = one_rank(ranks[0])
        return {"window": window(ranks), "ranks": [alone], "last": [], "ends_apart": [0.0]}
    met = collectives(ranks)
    met["last"] = met.groupby("number")["start"].transform("max")
    arrivals = met.loc[met.groupby("number")["start"].idxmax(), "rank"]
    own = []
    for rank, events in enumerate(ranks):
        of_rank = met[met["rank"] == rank]
        until = of_rank["own"] + (of_rank["last"] - of_rank["start"])
        late = pd.DataFrame({"start": of_rank["own"], "end": until})
        own.append(one_rank(events, late[late["end"] > late["start"]]))
    apart = met.groupby("number")["end"].transform("max") - met["end"]
    return {
        "window": window(ranks),
        "ranks": own,
        "last": [int(rank) for rank in arrivals],
        "waited": [float(t) for t in (met["last"] - met["start"]).groupby(met["rank"]).sum()],
        "ends_apart": [float(t) for t in apart.groupby(met["rank"]).sum()],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(first_screen(map(Path, sys.argv[1:])), indent=1) + "\n")
