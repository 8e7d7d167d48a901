"""Blocks of ranks that execute their common program together: each op is decoded once per block.

Members of a communication group meet often, so they can advance from collective to collective
together. A block waits when any of its ranks waits. Ends do not depend on the order of execution,
so this gives correct times. If ranks of one block wait for later ops of each other, the block
would wait forever; then it is split.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...facts.spmd.spmd_graph import SpmdGraph
from .rendezvous import Rendezvous

Arrays = tuple[NDArray[Any], ...]
MOST = 16  # ranks of a block


@dataclass(frozen=True)
class RankBlocks:
    """Partition of the ranks into blocks; all ranks of a block have the same program.

    Parameters
    ----------
    at : (blocks + 1,) index in ``member`` of the first rank of each block
    member : (ranks,) ranks, block after block
    block_of, index_in_block : (ranks,) block of each rank, and index of the rank within the block
    is_group : (families, blocks) True if the block is exactly one group of that family
    """

    at: NDArray[np.int64]
    member: NDArray[np.int64]
    block_of: NDArray[np.int64]
    index_in_block: NDArray[np.int64]
    is_group: NDArray[np.bool_]

    @classmethod
    def of_template(cls, template: SpmdGraph, rendezvous: Rendezvous) -> RankBlocks:
        """Form blocks of ranks with the same program in the same group.

        Groups are taken from the family with the most collectives.

        Examples
        --------
        >>> from foretrace.sim.facts.ops import Kind, Ops
        >>> from foretrace.sim.facts.spmd.spmd_graph import RankProgram
        >>> work = Ops.of(kind=[Kind.COMPUTE, Kind.COLLECTIVE], duration=[1.0, 0.5])
        >>> program = RankProgram.chain(work, family=[-1, 0])
        >>> graph = SpmdGraph((program,), np.zeros(4, np.int32), np.array([[0, 1, 0, 1]]))
        >>> RankBlocks.of_template(graph, Rendezvous.of(graph)).member.tolist()
        [0, 2, 1, 3]
        """
        calls = template.calls[:, template.program].sum(axis=1)
        own, program = np.arange(template.ranks), template.program.astype(np.int64)
        if not len(calls) or not calls.any():
            return cls.single_ranks(template, rendezvous)
        group = template.groups[int(np.argmax(calls))].astype(np.int64)
        order = np.lexsort((own, program, group))
        new = np.ones(len(order), bool)
        new[1:] = (np.diff(group[order]) != 0) | (np.diff(program[order]) != 0)
        begins = np.flatnonzero(new)
        place = own - np.repeat(begins, np.diff(np.append(begins, len(order))))
        return cls._of_order(order, new | (place % MOST == 0), rendezvous)

    @classmethod
    def single_ranks(cls, template: SpmdGraph, rendezvous: Rendezvous) -> RankBlocks:
        """Partition in which each rank is its own block."""
        own = np.arange(template.ranks)
        return cls._of_order(own, np.ones(len(own), bool), rendezvous)

    @classmethod
    def _of_order(
        cls, order: NDArray[np.int64], new: NDArray[np.bool_], rendezvous: Rendezvous
    ) -> RankBlocks:
        """Blocks of an ordered list of ranks; ``new`` marks the first rank of each block."""
        at = np.append(np.flatnonzero(new), len(order)).astype(np.int64)
        of = np.empty(len(order), np.int64)
        of[order] = np.cumsum(new) - 1
        size, place = np.diff(at), np.empty(len(order), np.int64)
        place[order] = np.arange(len(order)) - np.repeat(at[:-1], size)
        whole = np.zeros((len(rendezvous.group), len(size)), bool)
        for f, group in enumerate(rendezvous.group):
            mine = group[order]
            one = np.minimum.reduceat(mine, at[:-1]) == np.maximum.reduceat(mine, at[:-1])
            first = mine[at[:-1]]
            whole[f] = one & (rendezvous.member_at[first + 1] - rendezvous.member_at[first] == size)
        return cls(at, order.astype(np.int64), of, place, whole)

    @property
    def tables(self) -> Arrays:
        """Arrays of the blocks, in the order that kernels expect."""
        return self.at, self.member, self.block_of, self.index_in_block, self.is_group
