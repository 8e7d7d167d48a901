"""Measured tables: exact where measured, a power law between, nothing silent outside."""

import itertools
import logging

import numpy as np
import pytest
from foretrace.models.compute.table import MeasuredTable
from foretrace.sim.errors import BackendError
from foretrace.sim.facts.ops import Ops
from foretrace.sim.facts.system import System


def mm(m, n, k, dtype="bf16"):
    return f"compute:aten::mm {dtype}[{m}x{k}] {dtype}[{k}x{n}]"


def law(m, n, k):
    return 3e-12 * m**0.9 * n * k**0.8


SIZES = (16, 64, 256, 1024)
GRID = [(m, n, k) for m, n, k in itertools.product(SIZES, repeat=3)]
TABLE = MeasuredTable.of([mm(*g) for g in GRID], [law(*g) for g in GRID])


def test_a_measured_size_is_given_back_exactly():
    rng = np.random.default_rng(1)
    seconds = rng.uniform(1e-6, 1e-3, len(GRID))
    table = MeasuredTable.of([mm(*g) for g in GRID], seconds)
    assert table.seconds([mm(*g) for g in GRID]).tolist() == seconds.tolist()


@pytest.mark.parametrize("size", [(20, 100, 500), (1000, 17, 64), (64, 64, 65), (16, 1024, 999)])
def test_a_power_law_of_the_sizes_is_reproduced_between_them(size):
    assert TABLE.seconds([mm(*size)])[0] == pytest.approx(law(*size), rel=1e-9)


def test_what_was_measured_several_times_counts_with_its_median():
    table = MeasuredTable.of(["compute:a"] * 3, [1.0, 9.0, 2.0])
    assert table.seconds(["compute:a"]).tolist() == [2.0]


@pytest.mark.parametrize(
    "text",
    [
        mm(8, 64, 64),  # smaller than all
        mm(2048, 64, 64),  # larger than all
        "compute:aten::mm bf16[64x64] bf16[65x64]",  # k and k differ: tied in all measurements
    ],
)
def test_outside_the_measured_sizes_it_refuses(text):
    with pytest.raises(BackendError, match=r"lies outside the measured sizes \(\[16, 16, 16, 16\]"):
        TABLE.seconds([text])


@pytest.mark.parametrize("text", [mm(64, 64, 64, "fp16"), "compute:aten::bmm bf16[2x2]"])
def test_what_was_never_measured_is_refused(text):
    with pytest.raises(BackendError, match=r"no op like .* was measured"):
        TABLE.seconds([text])


def test_extrapolation_is_asked_for_and_said(caplog):
    table = MeasuredTable.of([mm(*g) for g in GRID], [law(*g) for g in GRID], outside="warn")
    texts = (mm(2048, 1024, 1024), mm(8, 16, 16), mm(64, 64, 64))
    ops = Ops.of(signature=[0, 1, 2], signatures=texts)
    with caplog.at_level(logging.WARNING):
        timing = table.timing(ops)
    assert timing.fixed[0] == pytest.approx(2 * law(1024, 1024, 1024))  # in proportion to m
    assert timing.fixed[1] == pytest.approx(law(16, 16, 16))  # no smaller than the smallest
    assert "2 of 3 signatures extrapolated, up to 2-fold" in timing.source[0]
    assert "measure those" in caplog.text


def test_measured_answers_are_not_called_extrapolated(caplog):
    timing = TABLE.timing(Ops.of(signature=[0, 0], signatures=(mm(64, 64, 64),)))
    assert timing.source is None
    assert not caplog.records
    assert timing.fixed.tolist() == [law(64, 64, 64)] * 2


def test_an_op_without_a_signature_is_refused():
    with pytest.raises(BackendError, match=r"op 1 .*has no signature to look up"):
        TABLE.timing(Ops.of(signature=[0, -1], signatures=(mm(64, 64, 64),)))


def test_a_file_is_read_when_opened(tmp_path):
    path = tmp_path / "gemm.csv"
    path.write_text(f"signature,seconds\n{chr(34)}{mm(8, 8, 8)}{chr(34)},1e-6\n")
    table = MeasuredTable(file=str(path))
    table.open(System(()))
    assert table.seconds([mm(8, 8, 8)]).tolist() == [1e-6]
    assert table.source == "table:gemm.csv"


def test_a_file_of_other_columns_is_refused(tmp_path):
    path = tmp_path / "gemm.csv"
    path.write_text("name,us\na,1\n")
    with pytest.raises(BackendError, match="no columns 'signature' and 'seconds'"):
        MeasuredTable(file=str(path)).open(System(()))


def test_an_unknown_policy_is_refused():
    with pytest.raises(BackendError, match="outside 'guess' is unknown"):
        MeasuredTable.of([], [], outside="guess")


def test_scattered_points_are_interpolated_too():
    """No box of measured corners holds the size: a power law is exact on simplices as well."""
    rng = np.random.default_rng(5)
    sizes = np.unique(rng.integers(16, 2000, (300, 3)), axis=0).tolist()
    table = MeasuredTable.of([mm(*s) for s in sizes], [law(*s) for s in sizes])
    asked = [(300, 400, 500), (1000, 900, 800)]
    assert table.seconds([mm(*s) for s in asked]) == pytest.approx([law(*s) for s in asked])


def test_a_hole_in_the_grid_is_bridged_from_around_it():
    holes = {(m, 64, 256) for m in SIZES}
    near = [g for g in GRID if g not in holes]
    table = MeasuredTable.of([mm(*g) for g in near], [law(*g) for g in near])
    assert table.seconds([mm(*g) for g in holes]) == pytest.approx([law(*g) for g in holes])


@pytest.mark.parametrize("text", [
    None, "signature,seconds\ncompute:mm fp32[8],soon\n", "signature,seconds\ncompute:mm fp32[8]\n",
    "signature,seconds\ncompute:mm fp32[8],-1\n", "signature,seconds\nmm,1\n",
])  # fmt: skip
def test_what_is_no_table_of_times_is_refused(tmp_path, text):
    file = tmp_path / "t.csv"
    if text is not None:
        file.write_text(text)
    with pytest.raises(BackendError, match=r"t\.csv: holds no measured times .*; give a CSV file"):
        MeasuredTable(file=str(file)).open(None)
