"""Plans of D7 (OPT-350M on GH200 nodes, published with Sailor), and which are set aside.

The rule was fixed before any fit to these plans: the third with the lowest digests.
``judge/profile.py`` scores them with ``--once``.
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
    """One run: settings, measurements, and whether it is set aside.

    Parameters
    ----------
    name : file name without the ending
    layers : (stages,) layers of each stage, of 26: an embedding, 24 layers, an output
    seconds, memory : iteration time in s, and largest GPU memory in B
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
