"""Doubts about values of a variant that change nothing, or less than they say."""

from __future__ import annotations

from collections.abc import Iterator

from ..draft import VariantDraft
from ..problems import Problem
from .fast_nic import fast_nic_warnings
from .missing_spine import missing_spine_warning
from .shared_gpus import shared_gpu_warnings


def no_effect_warnings(variant: VariantDraft) -> Iterator[Problem]:
    """Warnings where the values stand; none where the schema is not met."""
    if variant.model is None:
        return
    yield from missing_spine_warning(variant.model.cluster, variant.tree)  # type: ignore[attr-defined]
    yield from fast_nic_warnings(variant.model.cluster, variant.tree)  # type: ignore[attr-defined]
    model = variant.model
    yield from shared_gpu_warnings(model.jobs, model.cluster, variant.tree)  # type: ignore[attr-defined]
