"""The table of ops that a run leaves: how wrong each answer may be."""

import json

import pytest
from foretrace.models.compute.kernels import load_families
from foretrace.models.value_doubts import doubt_without_measurements
from foretrace.sim.facts.doubt import Doubt

SCENARIO = """
foretrace: 1
name: mine
workload: {trace: rank0.json.gz, recorded_on: {device: %s}}
cluster: {nodes: 1, node: {gpu: {model: h100-sxm5-80g, count: 1}, host: {cores: 8}}}
backends: {'node*.gpu*': %s}
"""


@pytest.fixture
def ops(script, tmp_path, monkeypatch, cli):
    """What the columns of a run's table of ops hold for its kernels, in order of their start."""
    import duckdb

    monkeypatch.chdir(tmp_path)
    s = script()
    two = {"Input Dims": [[512, 512], [512, 512]], "Input type": ["c10::BFloat16"] * 2}
    for at, name in enumerate(("aten::mm", "aten::_softmax")):
        s.op(name, 1000 * at, 500, **two)
        s.launch(1000 * at + 10, 1000 * at + 20, 80, name=f"kernel{at}")
    s.write(tmp_path)

    def table(chain, recorded_on="h100-sxm5-80g"):
        (tmp_path / "a.yaml").write_text(SCENARIO % (recorded_on, chain))
        code, out, err = cli("run", "a.yaml", "--json")
        assert code == 0, err
        path = tmp_path / json.loads(out)["folder"] / "ops.base.parquet"
        query = (
            f"select * from read_parquet('{path}') where component = 'node0.gpu0' order by start"
        )
        found = duckdb.execute(query).fetchnumpy()
        return [{name: column[i] for name, column in found.items()} for i in range(2)]

    return table


def test_each_predicted_op_has_the_factors_between_which_it_lies(ops):
    product, softmax = ops("roofline")
    known = load_families("h100-sxm5-80g")
    for row, family, regime in ((product, "product", "launch"), (softmax, "softmax", "launch")):
        doubt = Doubt(family, regime, known[family].evidence.quantiles[regime])
        assert (row["low"], row["high"]) == pytest.approx(doubt.interval())


def test_recorded_ops_have_none(ops):
    assert all("low" not in row for row in ops("recorded"))


def test_what_is_copied_to_another_gpu_is_as_unsure_as_an_assumed_time(ops):
    """It had no doubt at all: a step on a V100 was 2.33 times what was measured, +- 0 %."""
    chain = "[carried, recorded]"  # nobody judged softmax between the two
    _, softmax = ops(chain, recorded_on="a100-sxm4-80g")
    assert (softmax["low"], softmax["high"]) == pytest.approx(
        doubt_without_measurements().interval()
    )
