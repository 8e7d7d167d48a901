"""Measured NCCL times: rows to fit, and curves to judge.

Fitted: 2- and 4-GPU rows of all-reduce, all-gather and reduce-scatter in ``llm-opdb-nvidia``. All
others judge. ``UNSEEN`` are 8-GPU rows that nobody had read when the rule was committed, listed by
digests. The other curves were known.
"""

from __future__ import annotations

import csv
import os
import re
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np
from foretrace.models.network.collective.algorithms import bus_factor

DATA = Path(os.environ.get("FORETRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))
NCCL = {"a100_sxm": "2.27.3", "h100_sxm": "2.29.2", "h200_sxm": "2.29.2"}
GPUS = {"nvlink3": ("a100_sxm",), "nvlink4": ("h100_sxm", "h200_sxm")}  # one fit a generation
LINK = {"nvlink3": 300e9, "nvlink4": 450e9, "nvlink5": 900e9}  # one direction, datasheets
NAMES = {"all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter"}
UNIT = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
UNSEEN = {  # sha256 of the rows, before the first fit of a form that they judge
    "a100_sxm": "643c673dca6cf1a38c1c20497a9b266a3735313bd078a3b8ed1140ad7340bd00",
    "h100_sxm": "0cec759d8533a6e3da20198b8a73c395510c949e721be937954249f61bffab01",
    "h200_sxm": "19a46a4aafdbffc0ef88ca5f84775655c92059678e7d4992b345df679f88e3dc",
}


class Curve(NamedTuple):
    """One collective among n GPUs, over sizes.

    Parameters
    ----------
    called : True if a framework called it each time on idle GPUs, so that host time is included
    """

    name: str
    link: str
    collective: str
    n: int
    size: np.ndarray
    seconds: np.ndarray
    called: bool = False


def table(gpu: str, ranks: tuple[int, ...]) -> list[tuple[str, int, float, float]]:
    """Rows (collective, n, bytes, seconds): half precision, newest NCCL version, nccl-tests."""
    import duckdb

    path = DATA / "llm-opdb-nvidia" / "op" / gpu / "comm" / "nccl" / NCCL[gpu] / "nccl_perf.parquet"
    query = (
        "select op_name, num_gpus, message_size * 2.0, latency * 1e-3 from read_parquet(?) "
        f"where nccl_dtype = 'half' and num_gpus in {(*ranks, -1)} order by all"
    )
    found = duckdb.execute(query, [str(path)]).fetchall()
    return [(NAMES[c], n, float(b), s) for c, n, b, s in found if c in NAMES]


def unseen(gpu: str) -> list[Curve]:
    """Curves of eight GPUs of the machines whose 2- and 4-GPU rows are fitted."""
    rows = table(gpu, (8,))
    digest = sha256(repr(rows).encode()).hexdigest()
    if digest != UNSEEN[gpu]:
        raise SystemExit(f"{gpu}: rows {digest} are not those that were set aside")
    (link,) = (link for link, gpus in GPUS.items() if gpu in gpus)
    return [
        Curve(gpu, link, c, 8, *np.array([r[2:] for r in rows if r[0] == c]).T)
        for c in NAMES.values()
    ]


def framework() -> list[Curve]:
    """Curves of all-reduces that torch called one at a time on idle GPUs, timed by events."""
    folder, curves = DATA / "collectives", []
    for name, link, file in (
        ("8 x H200", "nvlink4", "h200-8gpu/allreduce.csv"),
        ("8 x B200, for report", "nvlink5", "b200-8gpu/allreduce_1node.csv"),
    ):
        with open(folder / file) as lines:
            rows = [(_bytes(r["payload"]), _rate(r["busbw"])) for r in csv.DictReader(lines)]
        size, rate = np.array(rows).T
        seconds = size * bus_factor("all-reduce", 8) / rate
        curves.append(Curve(name, link, "all-reduce", 8, size, seconds, True))
    with open(folder / "a100-8gpu-mleng" / "allreduce.csv") as lines:
        rows = [(float(r["size_B"]), float(r["time_us"]) * 1e-6) for r in csv.DictReader(lines)]
    curves.append(Curve("8 x A100 (a)", "nvlink3", "all-reduce", 8, *np.array(rows).T, True))
    return curves


def superbench() -> list[Curve]:
    """Curves of nccl-tests on eight A100 with 40 GB, from 32 KiB."""
    curves = []
    for file, name in (("allreduce", "all-reduce"), ("allgather", "all-gather"),
                       ("reducescatter", "reduce-scatter")):  # fmt: skip
        log = DATA / "collectives" / "a100-40g-8gpu-superbench" / f"nccl_{file}.log"
        found = re.findall(LINE, log.read_text(), re.MULTILINE)
        rows = [(float(b), float(us) * 1e-6) for b, us in found if int(b) >= 2**15]
        curves.append(Curve("8 x A100 (b)", "nvlink3", name, 8, *np.array(rows).T))
    return curves


LINE = r"^\s*(\d+)\s+\d+\s+float\s+(?:sum\s+)?(?:-1\s+)?([\d.]+)"


def third() -> list[Curve]:
    """Curves of all-reduces of 2 to 8 A100, 1 MiB to 1 GiB."""
    curves = []
    for n in range(2, 9):
        file = DATA / "megatron-a100" / "allreduce_lut" / f"a100_AR_GPU{n}_1M_1024M_LUT.csv"
        with open(file) as lines:
            rows = [(float(r[0]), float(r[3]) * 1e-9) for r in list(csv.reader(lines))[1:]]
        curves.append(Curve(f"{n} x A100 (c)", "nvlink3", "all-reduce", n, *np.array(rows).T))
    return curves


def _bytes(text: str) -> float:
    value, unit = re.fullmatch(r"(\d+)(\w+)", text).groups()
    return float(value) * UNIT[unit]


def _rate(text: str) -> float:
    return float(text.removesuffix("GBps")) * 1e9
