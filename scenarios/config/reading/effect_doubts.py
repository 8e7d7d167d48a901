"""Doubts about values of a variant that change nothing, or less than they say."""

from __future__ import annotations

from collections.abc import Iterator

from ..draft import VariantDraft
from ..problems import Problem
from .quick_nic import quick_nic_doubts
from .shared_gpus import shared_gpu_doubts
from .spine import missing_spine_doubt


def doubts_of_effect(variant: VariantDraft) -> Iterator[Problem]:
    """Warnings where the values stand; none where the schema is not met."""
    if variant.model is None:
        return
    yield from missing_spine_doubt(variant.model.cluster, variant.tree)  # type: ignore[attr-defined]
    yield from quick_nic_doubts(variant.model.cluster, variant.tree)  # type: ignore[attr-defined]
    model = variant.model
    yield from shared_gpu_doubts(model.jobs, model.cluster, variant.tree)  # type: ignore[attr-defined]
