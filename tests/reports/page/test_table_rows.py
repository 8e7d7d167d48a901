"""Rows of tables and heat maps: equal parts share a row, and long names can wrap."""

import numpy as np
from foretrace.reports.blocks import Heading, Live
from foretrace.reports.figures.time_tree import OpTotal
from foretrace.reports.html import breakable_name
from foretrace.reports.run.largest_ops import _table
from foretrace.reports.run.use_over_time import _group_identical, use_over_time
from foretrace.reports.texts.study import StudyShown
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.studies.run.run import setting_differences


def test_parts_with_equal_use_share_a_heat_map_row():
    busy, idle = np.array([0.5, 0.25]), np.zeros(2)
    shares = {f"node{n}.gpu0": busy for n in range(3)} | {"node0.nic0.tx": busy, "node3.gpu0": idle}
    rows = _group_identical(shares)
    assert list(rows) == ["node0.gpu0 + 2 alike", "node0.nic0.tx", "node3.gpu0"]
    assert rows["node0.gpu0 + 2 alike"] is busy


def test_use_over_time_has_every_variant_and_sort_of_part(small):
    """Earlier it showed only the base, without NICs and fabric links."""
    blocks = list(use_over_time(StudyShown(small.summary.to_dict(), small.results, {})))
    assert [b.text for b in blocks if isinstance(b, Heading)] == ["base", "quick"]
    for shown in (b for b in blocks if isinstance(b, Live)):
        rows = [row.partition(" + ")[0] for row in shown.data["rows"]]
        assert {"node0.gpu0", "node0.host"} <= {*rows}
        assert any(".nic0." in row for row in rows)
        assert len(shown.data["values"]) == len(rows)
        assert max(max(line) for line in shown.data["values"]) > 0.2


def test_op_counts_are_shown_once_if_variants_agree():
    def totals(seconds, ops):
        return [OpTotal(("compute", "gemm"), "compute", seconds, ops)]

    same = _table({"base": totals(1.0, 4), "quick": totals(0.5, 4)})
    assert [c.name for c in same.columns] == ["op", "kind", "ops", "base, time", "quick, time"]
    other = _table({"base": totals(1.0, 4), "quick": totals(0.5, 2)})
    assert [c.name for c in other.columns][2:] == [
        "base, time", "base, ops", "quick, time", "quick, ops",
    ]  # fmt: skip
    assert len(same.rows[0]) == len(same.columns)
    assert len(other.rows[0]) == len(other.columns)


def test_a_list_that_differs_is_one_setting():
    base = load("spray")
    few = load("spray", set=["workload.ops.0.from=[0, 1, 2, 3]"])
    assert setting_differences(base, few) == {
        "workload.ops.0.from": ("0, 1, 2 … 14, 15 (16 values)", "0, 1, 2, 3")
    }


def test_a_name_breaks_between_its_parts_and_a_number_nowhere():
    assert str(breakable_name("exposed_communication.p50")) == (
        "exposed_<wbr>communication.<wbr>p50"
    )
    assert str(breakable_name("aten::mm 0.25 ms")) == "aten::<wbr>mm 0.25 ms"
