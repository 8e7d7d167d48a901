"""Reader of Galvatron layer profiles: forward time of a layer in ms, per sequence of a batch."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .profile_rows import ProfileKey, Seconds

ROW = re.compile(r"layertype_(0|other)_bsz(\d+)_seq(\d+)")
BACKWARD = 2.0
"""Times a forward pass that a backward one takes: Galvatron's own cost model assumes it too
(``bct_fct_coe``; Miao et al. 2022, arXiv:2211.13878), since it profiles forward."""


def is_galvatron(content: Mapping[str, object]) -> bool:
    """True if a parsed file has the format of ``computation_profiling_*.json``.

    >>> is_galvatron({"layertype_0_bsz1_seq2048": 4.4}), is_galvatron({"1": {}})
    (True, False)
    """
    return any(ROW.fullmatch(key) for key in content)


def read_galvatron(content: Mapping[str, float], sequence: int) -> dict[ProfileKey, Seconds]:
    """Layer times in s for one sequence length, by micro-batch and number of tensor-parallel ranks.

    Everything outside the layers (embedding, output and loss) counts as the output. Only one rank
    was profiled, so tensor-parallel layers and weight updates are not included.

    Raises
    ------
    ValueError
        There is no layer with this sequence length, or a time is invalid.

    Examples
    --------
    >>> rows = {"layertype_0_bsz2_seq2048": 4.0, "layertype_other_bsz2_seq2048": 3.0}
    >>> found = read_galvatron(rows, 2048)
    >>> found[ProfileKey("forward", "dense")], found[ProfileKey("backward", "dense")]
    ({(2, 1): 0.008}, {(2, 1): 0.016})
    """
    found: dict[ProfileKey, Seconds] = {}
    for key, each in content.items():
        row = ROW.fullmatch(key)
        if row is None or int(row[3]) != sequence:
            continue
        if not each >= 0:
            raise ValueError(f"{key} is {each!r}; a time must be 0 or more")
        batch, kind = int(row[2]), "dense" if row[1] == "0" else "output"
        took = each * 1e-3 * batch
        for phase, times in (("forward", 1.0), ("backward", BACKWARD)):
            found.setdefault(ProfileKey(phase, kind), {})[batch, 1] = times * took
            found.setdefault(ProfileKey(phase, "embedding"), {})[batch, 1] = 0.0
    if ProfileKey("forward", "dense") not in found:
        held = sorted({int(row[3]) for key in content if (row := ROW.fullmatch(key))})
        raise ValueError(f"has layers with sequence lengths {held}; set sequence: {held[0]}")
    return found
