"""Jobs on the same GPUs where nothing of computing is shared: each is as quick as alone.

Legal, and right where they take turns; else an answer to another question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import combinations
from typing import TYPE_CHECKING

from ..problems import Problem
from .tree import TreeNode, deepest_node

if TYPE_CHECKING:
    from ..sections.cluster import ClusterSection
    from ..sections.jobs import JobSection, Pool

EVERY = "node*.gpu*"


def shared_gpu_warnings(
    jobs: Mapping[str, JobSection], cluster: ClusterSection, tree: TreeNode
) -> Iterator[Problem]:
    """Doubts about jobs that meet on GPUs which do not say ``core: true``.

    Parameters
    ----------
    jobs, cluster : checked
    tree : what the user wrote
    """
    parts = [machine.node.part("gpu") for machine in cluster.machines()]
    if all(part is None or part.settings.get("core") for part in parts):
        return
    taken = {name: _globs_of_gpus(job.on) for name, job in jobs.items()}
    for one, other in combinations(taken, 2):
        if any(_meet(a, b) for a in taken[one] for b in taken[other]):
            where, _ = deepest_node(tree, ("jobs", other, "on"))
            yield Problem(
                "doubt",
                f"jobs '{one}' and '{other}' use the same GPUs without slowing each other down; "
                "write cluster.node.gpu.core: true so that their kernels share the GPUs",
                where.spot,
                "warning",
            )


def _globs_of_gpus(pools: Mapping[str, Pool]) -> list[str]:
    """What a job says of its GPUs by name; a count is of GPUs that no other job has."""
    if not pools:
        return [EVERY]
    said = [[pool] if isinstance(pool, str) else pool for pool in pools.values()
            if not isinstance(pool, int)]  # fmt: skip
    return [glob for globs in said for glob in globs if ".gpu" in glob]


def _meet(first: str, second: str) -> bool:
    return fnmatchcase(first, second) or fnmatchcase(second, first)
