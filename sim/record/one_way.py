"""Check that flows in a message-based medium follow a single path."""

from __future__ import annotations

import numpy as np

from ..engine_api.interface import ComponentTable
from ..errors import GraphError
from ..facts.backend import Timing
from ..facts.csr import Csr
from ..facts.ops import Kind, Ops
from ..facts.system import System


def refuse_ops_without_single_path(
    parts: ComponentTable, ops: Ops, timing: Timing, members: Csr, system: System
) -> None:
    """Refuse ops that a message-based medium cannot carry: collectives and sprayed sends.

    Parameters
    ----------
    timing : one row per op, with explicit usage
    members : (n,) GPUs of each send and collective

    Raises
    ------
    GraphError
        Names the op, the medium and the setting.
    """
    if parts.medium is None or not parts.medium.one_way:
        return
    usage = timing.usage
    assert usage is not None  # noqa: S101  answers have it written out
    row = np.repeat(np.arange(len(ops)), np.diff(usage.indptr))
    inside = np.unique(row[parts.plugged[usage.component]])
    for one in inside[np.isin(ops.kind[inside], (Kind.COLLECTIVE, Kind.SEND))].tolist():
        what, name = ops.signature_text(one) or ops.kind_names[one], parts.medium.name
        if ops.kind[one] == Kind.COLLECTIVE:
            raise GraphError(
                "medium",
                f"op {one} ({what}) uses all links of its members at once, but medium '{name}' "
                "carries messages from GPU to GPU; expand it into sends (cluster.fabric.expand: "
                "ring, "
                "pairwise)",
                (one,),
            )
        if (system.crossings(*members[one][[0, -1]]).share < 1).any():
            raise GraphError(
                "medium",
                f"op {one} ({what}) is sprayed over several routes, but medium '{name}' carries "
                "each message over one route; set routing: ecmp",
                (one,),
            )
