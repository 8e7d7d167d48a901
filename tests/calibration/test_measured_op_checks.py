"""D10 and D13 of the accuracy checks, as a user asks them: through `foretrace run`.

The measured ops are not part of the repository; these skip where they are absent. Rows are a draw
of those that ``calibration/judge/ask_unseen_gpu.py`` and ``ask_intervals.py`` print in full.
"""

import importlib
import os
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(os.environ.get("FORETRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))
FEW = 200  # rows of a family


@pytest.fixture
def program():
    """A program of calibration/judge by its name."""
    if not (ROOT / "llm-opdb-nvidia").is_dir():
        pytest.skip(f"no measured ops at {ROOT}; set FORETRACE_DATA")
    return lambda name: importlib.import_module(f"foretrace.calibration.judge.{name}")


@pytest.fixture
def unseen(program, monkeypatch):
    """Lines of D10 by (family, regime)."""
    module = program("ask_unseen_gpu")
    monkeypatch.setattr(module, "MOST", FEW)

    def judged(target, *families):
        lines = module.lines(target, families, ("model", "carried"))
        return {(one.family, one.regime): one for one in lines}

    return judged


def test_d10_errors_from_a100_to_h100_against_their_targets(unseen):
    """Median <= 12 %, and <= half of copying where that errs by more than 10 %.

    What misses the bar is asserted too, so that a page that says so is true: the launch of a
    kernel, decode attention that is another program there, and memory of context attention.
    """
    found = unseen("h100_sxm", "gemm", "context attention", "decode attention")
    assert found["gemm", "arithmetic"].blind_holds
    assert found["context attention", "arithmetic"].blind_holds
    assert found["gemm", "up to 20 us"].errors["blind"] < 0.16
    assert found["gemm", "memory"].errors["blind"] < 0.18
    assert 0.20 < found["context attention", "up to 20 us"].errors["blind"] < 0.35
    assert found["context attention", "memory"].errors["blind"] < 0.25
    for regime in ("up to 20 us", "memory"):
        assert 0.12 < found["decode attention", regime].errors["blind"] < 0.25
    for line in found.values():  # never worse than half of copying, where that is far off
        if line.errors["copied"] > 0.5:
            assert line.errors["blind"] <= line.errors["copied"] / 2


def test_d10_errors_from_h100_to_h200_meet_targets_except_fp8(unseen):
    found = unseen("h200_sxm", "gemm", "gemm fp8", "decode attention")
    assert {line.family for line in found.values() if not line.blind_holds} <= {"gemm fp8"}
    assert all(line.errors["blind"] <= 0.12 for line in found.values())
    assert all(line.errors["with 20"] <= 0.12 for line in found.values())


def test_d13_gemms_of_an_unused_source_are_inside_their_intervals(program, monkeypatch):
    """One source fitted (of llm-opdb), another judged (of vidur), on A100 and on H100."""
    module = program("ask_intervals")
    monkeypatch.setattr(module, "EACH", FEW)
    monkeypatch.setattr(module, "unseen_families", lambda seen: iter(()))
    results = [
        module.ask(source)
        for gpu in ("a100", "h100")
        for source in module.sources(f"{gpu} vidur/Llama-2-7b", ["product"])
    ]
    assert [one.left for one in results] == [0, 0]
    held = np.concatenate([j.held for one in results for j in one.judged])
    assert len(held) == 2 * FEW
    assert held.mean() >= 0.8
    assert all(one.whole for one in results)
    for one in results:
        (judged,) = one.judged
        assert np.median(judged.width) <= 10 * np.quantile(judged.wrong, 0.9)


def test_d13_few_embeddings_of_an_unused_source_are_inside_their_intervals(program, monkeypatch):
    """40 % of them did, since a run answered as in a step, where they start cold."""
    module = program("ask_intervals")
    monkeypatch.setattr(module, "unseen_products", lambda seen: iter(()))
    (source,) = module.sources("a100 vidur/Llama-2-7b", ["gather of few"])
    (judged,) = module.ask(source).judged
    assert len(judged.held) > 10
    assert judged.held.mean() >= 0.7


def test_an_op_of_a_table_is_the_same_op_when_a_profile_holds_it(program):
    """Else the command line would be asked about other work than was measured."""
    from foretrace.calibration.rows.asked import operator
    from foretrace.models.compute.op_database_rows import measured_rows
    from foretrace.models.compute.op_shape import op_shape

    tables = sorted(ROOT.glob("llm-opdb-nvidia/op/a100_sxm/*/vllm/0.14.0/*_perf.parquet"))
    tables += sorted(ROOT.glob("vidur-opdb/compute/a100/**/phi-2/mlp.csv*"))
    families = set()
    for table in tables:
        for row in islice(measured_rows(table), 0, 2000, 41):
            if (op := operator(row.shape)) is not None:
                told = (
                    f"{dtype}[{'x'.join(str(round(n)) for n in sizes)}]"
                    for dtype, sizes in op.operands
                )
                found = op_shape(f"compute:{op.name} {' '.join(told)}")
                assert found._replace(dtype="") == row.shape._replace(dtype="")
                families.add(found.family)
    assert families >= {"product", "attention", "decode attention", "experts", "rope"}
