"""Databases of measured ops: exact where measured, between neighbours else, refused outside."""

import gzip

import numpy as np
import pytest
from foretrace.models.compute.op_database_rows import (
    database_files,
    engine_and_version,
    measured_rows,
)
from foretrace.models.compute.table import MeasuredTable
from foretrace.sim.errors import BackendError
from foretrace.sim.facts.ops import Ops

MM = "compute:aten::mm bf16[{}x{}] bf16[{}x{}]"
VIDUR = (
    "num_tokens,num_tensor_parallel_workers,n_embd,n_expanded_embd,n_head,n_kv_head,vocab_size,"
    "use_gated_mlp,time_stats.add.median,time_stats.mlp_down_proj.median\n"
    "64,2,4096,8192,32,32,32000,{gated},0.004,0.02\n128,2,4096,8192,32,32,32000,{gated},0.006,0.03\n"
)


def asked(*texts):
    return Ops.of(signature=np.arange(len(texts)), signatures=texts)


@pytest.fixture
def aiconfigurator(tmp_path):
    import duckdb

    def write(name, columns, *values, engine="vllm/1.0"):
        folder = tmp_path / "h100_sxm" / "family" / engine
        folder.mkdir(parents=True, exist_ok=True)
        told = ", ".join(str(v) for v in values)
        duckdb.execute(
            f"copy (from (values {told}) t({columns})) to '{folder / name}' (format parquet)"
        )
        return tmp_path / "h100_sxm"

    return write


def test_products_are_exact_where_measured_and_interpolated_between(aiconfigurator):
    folder = aiconfigurator(
        "gemm_perf.parquet", "gemm_dtype, m, n, k, latency",
        ("bfloat16", 64, 4096, 1024, 0.01), ("bfloat16", 256, 4096, 1024, 0.04),
    )  # fmt: skip
    table = MeasuredTable(folder=str(folder))
    table.open(None)
    ops = asked(MM.format(64, 1024, 1024, 4096), MM.format(128, 1024, 1024, 4096))
    timing = table.timing(ops)
    assert timing.fixed.tolist() == pytest.approx([1e-5, 2e-5])
    assert timing.source[0] == "measured:h100_sxm"
    assert timing.source[1] == "measured:h100_sxm, interpolated"
    assert timing.doubt[0] is None
    assert (timing.doubt[1].family, timing.doubt[1].regime) == ("product", "interpolated")
    assert timing.doubt[1].interval()[1] > 1


def test_attention_lies_between_lengths_but_not_between_widths_of_heads(aiconfigurator):
    folder = aiconfigurator(
        "generation_attention_perf.parquet",
        "batch_size, isl, step, num_heads, num_key_value_heads, head_dim, kv_cache_dtype, latency",
        *((8, 1, length - 1, 32, 8, 128, "bfloat16", 1e-5 * length) for length in (1000, 4000)),
    )
    table = MeasuredTable(folder=str(folder))
    table.open(None)
    operands = "bf16[8x32x1x{0}] bf16[8x8x2000x{0}] bf16[8x8x2000x{0}]"
    text = f"compute:aten::scaled_dot_product_attention {operands}"
    ops = asked(text.format(128), text.format(64))
    assert table.knows(ops).tolist() == [True, False]
    assert table.timing(ops.take_with_placement(np.array([0]))).fixed.tolist() == pytest.approx(
        [2e-5]
    )


def test_an_engine_is_chosen_by_its_name_and_without_one_medians_count(aiconfigurator):
    columns = "gemm_dtype, m, n, k, latency"
    for version, ms in (("vllm/1.0", 0.01), ("vllm/2.0", 0.02), ("sglang/1.0", 0.06)):
        folder = aiconfigurator(
            "gemm_perf.parquet", columns, ("bfloat16", 8, 8, 8, ms), engine=version
        )
    ops = asked(MM.format(8, 8, 8, 8))
    for name, seconds in (("vllm/2.0", 2e-5), ("vllm", 1.5e-5), ("", 2e-5)):
        table = MeasuredTable(folder=str(folder), engine=name)
        assert table.timing(ops).fixed.tolist() == pytest.approx([seconds])
    with pytest.raises(BackendError, match="holds no measured ops of trtllm"):
        MeasuredTable(folder=str(folder), engine="trtllm").open(None)


def test_vidur_counts_two_additions_where_a_model_has_them(tmp_path):
    for model, gated, ms in (("llama", True, 0.004), ("phi", False, 0.002)):
        file = tmp_path / model / "mlp.csv.gz"
        file.parent.mkdir()
        with gzip.open(file, "wt") as out:
            out.write(VIDUR.format(gated=gated))
        found = {r.shape.family: r.seconds for r in [*measured_rows(file)][:2]}
        assert engine_and_version(file) == f"vidur/{model}"
        added = [r.seconds for r in measured_rows(file) if r.shape.family == "elementwise"]
        assert added[0] == pytest.approx(ms * 1e-3)
        assert found["product"] == pytest.approx(2e-5)
    assert len(database_files(tmp_path, "norm")) == 2


def test_sizes_outside_the_table_are_refused_with_a_remedy(aiconfigurator):
    folder = aiconfigurator(
        "gemm_perf.parquet", "gemm_dtype, m, n, k, latency",
        ("bfloat16", 8, 8, 8, 0.001), ("bfloat16", 4, 8, 8, 0.001),
    )  # fmt: skip
    table = MeasuredTable(folder=str(folder))
    with pytest.raises(BackendError, match=r"outside the measured sizes .*set outside: warn"):
        table.timing(asked(MM.format(16, 8, 8, 8)))
    with pytest.raises(BackendError, match=r"no op like .* was measured; .* use a chain"):
        table.timing(asked("compute:aten::frobnicate bf16[8]"))
    far = MeasuredTable(folder=str(folder), outside="warn").timing(asked(MM.format(16, 8, 8, 8)))
    assert far.fixed.tolist() == pytest.approx([2e-6])


def test_a_database_and_a_file_are_two_tables(tmp_path):
    with pytest.raises(BackendError, match=r"give 'file' .*, or 'folder'"):
        MeasuredTable(file="a.csv", folder=str(tmp_path))
    with pytest.raises(BackendError, match=r"give 'file' .*, or 'folder'"):
        MeasuredTable()


def test_a_folder_without_measured_ops_is_refused(tmp_path):
    with pytest.raises(BackendError, match="holds no measured ops of any engine"):
        MeasuredTable(folder=str(tmp_path)).open(None)


def test_a_table_of_another_version_names_the_column_that_it_lacks(aiconfigurator):
    folder = aiconfigurator(
        "gemm_perf.parquet", "dtype, m, n, k, latency", ("bfloat16", 8, 8, 8, 1.0)
    )
    with pytest.raises(BackendError, match="has no column 'gemm_dtype'"):
        MeasuredTable(folder=str(folder)).timing(asked(MM.format(8, 8, 8, 8)))
