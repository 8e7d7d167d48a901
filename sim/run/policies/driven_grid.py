"""Prepared grid as an engine submits it for the kernel of a compiled process."""

from __future__ import annotations

from ...engine_api.driven_policy import FixedShape, GridShapes
from ...engine_api.interface import Numbers
from ...record.grid_answers import GridAnswers
from ...record.prepared import PreparedVariant
from ...record.prepared_grid import PreparedGrid


def driven_grid(grid: PreparedGrid) -> GridShapes | None:
    """Arrays and variants of a prepared grid; None if only Python can submit it now.

    A variant is made by its first submission, which therefore goes through Python.
    """
    answers, name = grid.known, grid.graph.name
    if answers is None:
        return None
    variants = {
        structure: FixedShape(variant.shape, _room(answers, variant), name)
        for structure, variant in grid.variants.items()
        if variant.draw is None
    }
    return GridShapes(answers.arrays, answers.cell, variants, name)


def _room(answers: GridAnswers, variant: PreparedVariant) -> Numbers:
    """Room for the numbers of a submission, next to the amounts of all."""
    fixed, hi, lo, limit = answers.room
    return Numbers(fixed, hi, lo, limit, variant.numbers.amount)
