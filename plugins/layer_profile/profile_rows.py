"""Reader of Sailor layer profiles: seconds by phase, kind of layer, micro-batch and ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

Profile = Mapping[str, Mapping[str, Mapping[str, list[float]]]]
Sizes = tuple[int, int]  # sequences of a micro-batch, tensor-parallel ranks
Seconds = dict[Sizes, float]
PHASES, KINDS = ("forward", "backward"), ("embedding", "dense", "output")
ANY = 1  # the micro-batch under which updates are kept, which do not depend on it


class ProfileKey(NamedTuple):
    """Key of the times in a layer profile: phase (such as ``forward``) and kind of layer."""

    phase: str
    kind: str


UPDATE = ProfileKey("update", "")  # of the weights of any layer


def read_profile(
    content: Mapping[str, Mapping[str, Mapping[str, list[float]]]],
) -> dict[ProfileKey, Seconds]:
    """Layer times in s from a Sailor profile, by micro-batch and number of tensor-parallel ranks.

    Layers between embedding and output are equal, so their median is used. Weight updates do not
    depend on the micro-batch, so the median per number of ranks is used.

    Raises
    ------
    ValueError
        There are fewer than three layers, or a time is invalid.

    Examples
    --------
    >>> times = {"1": {"2": {"0": [1, 0, 5], "1": [2, 4, 5], "2": [3, 6, 5], "3": [9, 9, 5]}}}
    >>> found = read_profile(times)
    >>> found[ProfileKey("forward", "dense")], found[UPDATE]
    ({(1, 2): 2.5}, {(1, 2): 5.0})
    """
    found: dict[ProfileKey, Seconds] = {}
    updates: dict[int, list[float]] = {}
    for batch, by_tensor in content.items():
        for tensor, by_layer in by_tensor.items():
            times = np.array([by_layer[str(n)] for n in range(len(by_layer))], float)
            if times.ndim != 2 or len(times) < 3 or times.shape[1] != 3 or not (times >= 0).all():
                raise ValueError(
                    f"micro-batch {batch}, tensor {tensor}: needs at least three layers with three "
                    f"times each"
                )
            each = times[0], np.median(times[1:-1], axis=0), times[-1]
            for kind, values in zip(KINDS, each, strict=True):
                for phase, seconds in zip(PHASES, values.tolist(), strict=False):
                    key = ProfileKey(phase, kind)
                    found.setdefault(key, {})[int(batch), int(tensor)] = seconds
            updates.setdefault(int(tensor), []).append(float(times[:, 2].mean()))
    found[UPDATE] = {(ANY, tensor): float(np.median(s)) for tensor, s in updates.items()}
    return found
