"""SQL for the bars of ops at a given resolution.

At level ``n`` a cell is ``2**n`` ticks of a lane. An op that lasts a cell or longer is a bar of its
own. Shorter ops that begin in the same cell are merged into one bar, from their first start to
their last end, of the kind with the most time. Ends and busy time of merged bars are stored in
256ths of a cell, rounded down, so bars overlap only if ops do.

A relation of ops has the columns ``lane, start, "end", kind`` (an index into ``palette.KINDS``) and
``name``.
"""

from __future__ import annotations

from ..palette import bar_kinds

PARTS = 8  # bits: 256ths of a cell


def part_shift(level: int) -> int:
    """Base-2 logarithm of the ticks in a 256th of a cell; 0 for small cells.

    >>> part_shift(20), part_shift(3)
    (12, 0)
    """
    return max(level - PARTS, 0)


def long_op_bars(ops: str, level: int) -> str:
    """SQL for the bars of ops that last a cell or longer."""
    return (
        f'SELECT lane, start, "end", kind, 1::BIGINT AS count, "end" - start AS busy, name '
        f'FROM {ops} WHERE "end" - start >= {1 << level}'
    )


def sums_by_cell(ops: str, level: int) -> str:
    """SQL for sums over shorter ops by lane, cell and kind: count, busy ticks, start, end."""
    return (
        f"SELECT lane, start >> {level} AS cell, kind, count(*) AS count, "
        f'sum("end" - start)::BIGINT AS busy, min(start) AS first, max("end") AS last '
        f'FROM {ops} WHERE "end" - start < {1 << level} GROUP BY ALL'
    )


def coarser_sums(finer: str, ops: str, level: int) -> str:
    """SQL for the sums at a level, from those of the next finer level.

    Ops that are shorter than a cell only at the coarser level are added.
    """
    return (
        "SELECT lane, cell >> 1 AS cell, kind, sum(count)::BIGINT AS count, "
        "sum(busy)::BIGINT AS busy, min(first) AS first, max(last) AS last "
        f"FROM (SELECT * FROM {finer} UNION ALL SELECT lane, start >> {level - 1}, kind, 1, "
        f'"end" - start, start, "end" FROM {ops} WHERE "end" - start >= {1 << level - 1} '
        f'AND "end" - start < {1 << level}) GROUP BY ALL'
    )


def cells(sums: str, level: int) -> str:
    """SQL for cells, from sums: the kind with the most time, and start and end in 256ths of a cell.

    ``lead`` is the distance from the cell's begin to the first start; ``extent`` and ``busy`` are
    lengths. At a tie the first kind is taken.
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
    """SQL for the bars of cells; these have no name, since they stand for several ops."""
    shift = part_shift(level)
    start = f"(cell << {level}) + (lead::BIGINT << {shift})"
    return (
        f'SELECT lane, {start} AS start, {start} + (extent::BIGINT << {shift}) AS "end", kind, '
        f"count::BIGINT AS count, busy::BIGINT << {shift} AS busy, NULL::VARCHAR AS name "
        f"FROM {cells}"
    )


def bars(ops: str, level: int) -> str:
    """SQL for all bars of ops at a level, computed directly; the ops are read once."""
    sums = f"({sums_by_cell('read', level)})"
    short = bars_of_cells(f"({cells(sums, level)})", level)
    return (
        f"WITH read AS MATERIALIZED (SELECT * FROM {ops}) "
        f"{long_op_bars('read', level)} UNION ALL {short}"
    )
