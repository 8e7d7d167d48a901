"""Measured collectives in addition to ``nccl_rows.py``: rows to fit, and rows set aside by a hash.

The rule and the digests were committed before any judging row was read.

- ``h100_dgx``: Vidur's all-reduces of eight of eight H100, 2 KiB to 64 MiB: 20 listed sizes are
  fitted (or 20 up to a decade below the largest). Half of all, by hash, choose the form and the
  listed sizes: the first rule was 20 evenly spaced logarithms, of which the few below 1 MiB
  scattered too much. The other half is scored once.
- ``a100_dgx``: of sixteen A100 in two nodes, sizes below 1 MiB and the largest are fitted.
- ``alps``: 4, 8 and 16 GPUs are fitted, 32 judged (D11; best of four runs).
- ``all_to_all``: 2 and 4 GPUs are fitted, 8 judged (D12), half precision.
- ``all_to_all other``: eight A100 of another machine, nccl-tests, judge; set aside when grouped
  sends were added to the form, before its fit.
"""

from __future__ import annotations

import csv
import gzip
import re
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from foretrace.models.calibration.parameter_search import held_out_mask

from .nccl_rows import DATA, LINE, NCCL

MIB = 2**20
LISTED = 20
JUDGED = {  # sha256 of the rows that judge
    "h100_dgx": "cd3871c4d5d408137402df7a4d8577a8fdc13b44b90919cadf15f1567aa351bb",
    "a100_dgx": "e92a5e5d114b0884cf9c9dab8777ee2cd0ebaf3c2fb0e31fe6775e3d3a6a91a1",
    "alps": "5059afc32b22989501589b91a24266b5dec564c5c9c0909f6a4dda02656b05bb",
    "all_to_all other": "62c9c82e7ff348ed522557b1a1066ac6e41bf78783358e9bb4303c14490cf212",
    "all_to_all a100_sxm": "a1889977f5c0d9130c95bdc274e7f04baf2f9d1b2cccd8ca4f2a9361b5db9bc7",
    "all_to_all h100_sxm": "1fb20f62e43d32a579d56cb9ce4a55b37f4c1e8872ca8fbd01716a3d8851dcb8",
    "all_to_all h200_sxm": "4c7316767cc5944d70c586a28d2fa74d5ce215c2720a112828b6dd5172726345",
}


class Rows(NamedTuple):
    """Measured collectives: members, nodes, bytes and time in s, each of shape (n,)."""

    members: np.ndarray
    nodes: np.ndarray
    size: np.ndarray
    seconds: np.ndarray

    def take(self, kept: np.ndarray) -> Rows:
        """Selected rows."""
        return Rows(*(column[kept] for column in self))

    @property
    def digest(self) -> str:
        """sha256 of all rows."""
        return sha256(repr([column.tolist() for column in self]).encode()).hexdigest()


def judging(name: str, rows: Rows) -> Rows:
    """Return judging rows after checking that they are those that were set aside.

    Raises
    ------
    SystemExit
        Their digest differs.
    """
    if rows.digest != JUDGED[name]:
        raise SystemExit(f"{name}: rows {rows.digest} are not those that were set aside")
    return rows


def vidur(machine: str, members: int, nodes: int) -> Rows:
    """Vidur's all-reduces: median by size; torch calls them one after another."""
    file = DATA / "vidur-opdb" / "network" / machine / "all_reduce.csv.gz"
    with gzip.open(file, "rt") as lines:
        found = {
            int(r["size"]): float(r["time_stats.all_reduce.median"]) * 1e-3
            for r in csv.DictReader(lines)
            if int(r["num_workers"]) == members and int(r["devices_per_node"]) * nodes == members
        }
    size = np.array(sorted(found), float)
    return Rows(np.full(len(size), members), np.full(len(size), nodes), size,
                np.array([found[int(s)] for s in size]))  # fmt: skip


def listed(size: np.ndarray, able: np.ndarray, most: float = np.inf) -> np.ndarray:
    """Mask of 20 sizes up to ``most``, shape (n,): ten below 1 MiB, even in size, ten above,
    logarithmic.

    Below 1 MiB times hardly depend on the size, so that their scatter is fitted.
    """
    there = np.flatnonzero(able & (size <= most))
    top = size[there[-1]]
    asked = np.concatenate([np.linspace(size[0], MIB, 11)[:-1], np.geomspace(MIB, top, 10)])
    near = np.abs(size[there, None] - asked).argmin(axis=0)
    return np.isin(np.arange(len(size)), there[near])


def _even(size: np.ndarray, most: float = np.inf) -> np.ndarray:
    """Mask of the sizes up to ``most`` nearest to 20 evenly spaced logarithms, shape (n,)."""
    able = np.flatnonzero(size <= most)
    asked = np.geomspace(size[able[0]], size[able[-1]], LISTED)
    near = np.abs(np.log(size[able, None] / asked)).argmin(axis=0)
    return np.isin(np.arange(len(size)), able[near])


def h100_dgx() -> tuple[Rows, np.ndarray, np.ndarray, np.ndarray]:
    """All rows; masks of the listed sizes, of sizes below the top decade, and of known rows.

    Known are the half that chooses the form, and the sizes of the first rule.
    """
    rows = vidur("h100_dgx", 8, 1)
    decade = rows.size[-1] / 10
    half = ~held_out_mask([f"{s:.0f} B" for s in rows.size], share=0.5)
    known = half | _even(rows.size) | _even(rows.size, decade)
    judging("h100_dgx", rows.take(~known))
    return rows, listed(rows.size, known), listed(rows.size, known, decade), known


def a100_dgx() -> tuple[Rows, Rows]:
    """Rows of two nodes of eight A100: to fit, and to judge."""
    rows = vidur("a100_dgx", 16, 2)
    own = (rows.size < MIB) | (rows.size == rows.size[-1])
    return rows.take(own), judging("a100_dgx", rows.take(~own))


def alps() -> tuple[Rows, Rows]:
    """Rows to fit of 4, 8 and 16 GH200, and rows to judge of 32."""
    with open(DATA / "collectives" / "alps-gh200" / "allreduce_4_to_32.csv") as lines:
        found = [[float(r[k]) for k in ("gpus", "nodes", "bytes", "best_us")]
                 for r in csv.DictReader(lines)]  # fmt: skip
    members, nodes, size, us = np.array(sorted(found)).T
    rows = Rows(members.astype(int), nodes.astype(int), size, us * 1e-6)
    return rows.take(rows.members < 32), judging("alps", rows.take(rows.members == 32))


def all_to_all(gpu: str) -> tuple[Rows, Rows]:
    """Rows to fit of 2 and 4 GPUs, and rows to judge of 8."""
    import duckdb

    path = DATA / "llm-opdb-nvidia" / "op" / gpu / "comm" / "nccl" / NCCL[gpu] / "nccl_perf.parquet"
    query = (
        "select num_gpus, message_size * 2.0, latency * 1e-3 from read_parquet(?) "
        "where nccl_dtype = 'half' and op_name = 'alltoall' order by all"
    )
    members, size, seconds = np.array(duckdb.execute(query, [str(path)]).fetchall(), float).T
    rows = Rows(members.astype(int), np.ones(len(size), int), size, seconds)
    return rows.take(rows.members < 8), judging(f"all_to_all {gpu}", rows.take(rows.members == 8))


def other_all_to_all() -> Rows:
    """Rows to judge of eight A100 with 40 GB (superbenchmark), from 512 B."""
    log = DATA / "collectives" / "a100-40g-8gpu-superbench" / "nccl_alltoall.log"
    found = re.findall(LINE, log.read_text(), re.MULTILINE)
    size, us = np.array([(b, us) for b, us in found if int(b) >= 512], float).T
    eight, one = np.full(len(size), 8), np.ones(len(size), int)
    return judging("all_to_all other", Rows(eight, one, size, us * 1e-6))
