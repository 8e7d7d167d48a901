"""Upper bound of the number of ops of one rank that run at once, from a cover by chains.

In a chain, each op depends on the one before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...kernel.jit import jit

if TYPE_CHECKING:
    from ...facts.spmd.spmd_graph import RankProgram

ROLES = 4
NOBODY = 3  # of these: what takes no slot


def count_chains_by_role(program: RankProgram, role: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of chains with an op of each role, shape (4,), in a cover of the program by chains.

    Ops of one chain never overlap, so at most that many ops of a role run at once. A chain
    continues with an op of the same role if possible, else with one of the same stream. So compute
    that waits for a message stays in the chain of the compute before it.

    Examples
    --------
    >>> from foretrace.sim.facts.ops import Ops
    >>> from foretrace.sim.facts.spmd.spmd_graph import RankProgram
    >>> program = RankProgram.chain(Ops.of(rank=[0, 0, 0]))
    >>> count_chains_by_role(program, np.array([0, 3, 0])).tolist()
    [1, 0, 0, 1]
    """
    if program.is_chain:
        found = np.zeros(ROLES, np.int64)
        found[np.unique(role)] = 1
        return found
    after = program.successors
    counted: NDArray[np.int64] = _count_chains(after.indptr, after.values, role, program.ops.stream)
    return counted


@jit
def _count_chains(indptr: Any, after: Any, role: Any, stream: Any) -> Any:
    n = len(role)
    chain, followed = np.full(n, -1, np.int64), np.zeros(n, np.bool_)
    touched = np.zeros((n, ROLES), np.bool_)
    found = np.zeros(ROLES, np.int64)
    used = 0
    for i in range(n):
        if chain[i] < 0:
            chain[i] = used
            used += 1
        if not touched[chain[i], role[i]]:
            touched[chain[i], role[i]] = True
            found[role[i]] += 1
        best, score = -1, -1
        for e in range(indptr[i], indptr[i + 1]):
            v = after[e]
            same = role[v] == role[i] and role[i] != NOBODY
            likeness = 2 * same + (stream[v] == stream[i])
            if not followed[v] and likeness > score:
                best, score = v, likeness
        if best >= 0:
            followed[best] = True
            chain[best] = chain[i]
    return found
