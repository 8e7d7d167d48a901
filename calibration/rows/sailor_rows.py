"""Plans of D7 (OPT-350M on GH200 nodes, published with Sailor), and which of them are set aside.

The set aside is fixed before anything was fitted to these plans: those whose digest is among the
lowest third; ``judge/profile.py`` scores it with ``--once``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SEED = "foretrace-d7-2026-11-23"
FOLDER = "plans/clariden/OPT-350"
ASIDE = ("088ec4bc", "0cd5f85b", "26819fdd", "4252eb71", "539e4bd5")


class Plan(NamedTuple):
    """One run: settings, what was measured, and whether it is set aside.

    Parameters
    ----------
    name : of its file, without the ending
    layers : (stages,) of each stage, of 26: an embedding, 24 layers, an output
    seconds, memory : of an iteration, and B of the GPU that held most
    """

    name: str
    nodes: int
    tensor: int
    data: int
    layers: tuple[int, ...]
    micro_batch: int
    batch: int
    seconds: float
    memory: float
    aside: bool


def digest(name: str) -> str:
    """First eight digits of the digest of a plan's name with the seed."""
    return hashlib.sha256(f"{SEED}|{name}".encode()).hexdigest()[:8]


def data_set() -> Path:
    """Folder of the data set."""
    return Path(os.environ["FORETRACE_DATA"]) / "sailor-training"


def plans() -> Iterator[Plan]:
    """All plans, by nodes and data-parallel ranks."""
    files = sorted((data_set() / FOLDER).rglob("*.json"))
    for file in files:
        read = json.loads(file.read_text())
        (pipeline,) = read["pipeline_list"]
        one = pipeline["tmp_per_stage"][0]
        yield Plan(
            file.stem.removeprefix("plan_config_"),
            read["N"],
            one[0][1],
            len(one),
            tuple(len(stage) for stage in pipeline["layers_per_stage"]),
            read["mbs"],
            read["gbs"],
            read["real"],
            read["max_mem"],
            digest(file.stem) in ASIDE,
        )
