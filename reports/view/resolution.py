"""What is drawn of ops at a resolution, as SQL over relations of ops.

At a resolution of ``2**level`` ticks an op that lasts as long or longer is a bar of its own.
Shorter ones that begin in the same cell of so many ticks of a lane are one bar, from their first
start to their last end, of the kind that has most time in it.  Ends of such bars and their busy
time are kept in 256ths of a cell, rounded down: bars overlap only where ops do.

A relation of ops has the columns ``lane, start, "end", kind`` (its number in ``palette.KINDS``) and
``name``.
"""

from __future__ import annotations

from ..palette import bar_kinds

PARTS = 8  # bits: 256ths of a cell


def part_shift(level: int) -> int:
    """Ticks of a part of a cell, as a power of two.

    >>> part_shift(20), part_shift(3)
    (12, 0)
    """
    return max(level - PARTS, 0)


def long_op_bars(ops: str, level: int) -> str:
    """Bars of ops that last a cell or longer."""
    return (
        f'SELECT lane, start, "end", kind, 1::BIGINT AS count, "end" - start AS busy, name '
        f'FROM {ops} WHERE "end" - start >= {1 << level}'
    )


def sums_by_cell(ops: str, level: int) -> str:
    """Sums of shorter ops by lane, cell and kind; see :func:`coarser_sums`."""
    return (
        f"SELECT lane, start >> {level} AS cell, kind, count(*) AS count, "
        f'sum("end" - start)::BIGINT AS busy, min(start) AS first, max("end") AS last '
        f'FROM {ops} WHERE "end" - start < {1 << level} GROUP BY ALL'
    )


def coarser_sums(finer: str, ops: str, level: int) -> str:
    """Sums at a level out of those of the level below, and of ops that only now are shorter."""
    return (
        "SELECT lane, cell >> 1 AS cell, kind, sum(count)::BIGINT AS count, "
        "sum(busy)::BIGINT AS busy, min(first) AS first, max(last) AS last "
        f"FROM (SELECT * FROM {finer} UNION ALL SELECT lane, start >> {level - 1}, kind, 1, "
        f'"end" - start, start, "end" FROM {ops} WHERE "end" - start >= {1 << level - 1} '
        f'AND "end" - start < {1 << level}) GROUP BY ALL'
    )


def cells(sums: str, level: int) -> str:
    """Cells out of sums: kind with most time (the first of equals), and ends in parts of a cell.

    ``lead`` is counted from the cell's begin, ``extent`` and ``busy`` are lengths.
    """
    shift = part_shift(level)
    kinds = len(bar_kinds())
    most = f"arg_max(kind, busy * {kinds} + {kinds - 1} - kind)"
    return (
        f"SELECT lane::INTEGER AS lane, cell, {most}::UTINYINT AS kind, "
        f"sum(count)::UINTEGER AS count, (sum(busy)::BIGINT >> {shift})::UINTEGER AS busy, "
        f"((min(first) - (cell << {level})) >> {shift})::UTINYINT AS lead, "
        f"((max(last) >> {shift}) - (min(first) >> {shift}))::USMALLINT AS extent "
        f"FROM {sums} GROUP BY lane, cell"
    )


def bars_of_cells(cells: str, level: int) -> str:
    """Bars that cells are drawn as; their ops have no one name."""
    shift = part_shift(level)
    start = f"(cell << {level}) + (lead::BIGINT << {shift})"
    return (
        f'SELECT lane, {start} AS start, {start} + (extent::BIGINT << {shift}) AS "end", kind, '
        f"count::BIGINT AS count, busy::BIGINT << {shift} AS busy, NULL::VARCHAR AS name "
        f"FROM {cells}"
    )


def bars(ops: str, level: int) -> str:
    """Bars of ops at a resolution, directly; the ops are read once."""
    sums = f"({sums_by_cell('read', level)})"
    short = bars_of_cells(f"({cells(sums, level)})", level)
    return (
        f"WITH read AS MATERIALIZED (SELECT * FROM {ops}) "
        f"{long_op_bars('read', level)} UNION ALL {short}"
    )
