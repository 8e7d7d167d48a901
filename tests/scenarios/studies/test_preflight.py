"""What a model cannot answer is refused before anything is simulated, all of it at once."""

import json

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.studies.variants.variants import build_variants

FIRST = """\
foretrace: 1
name: lacking
extends: foretrace:first
workload: {scale_to: {parallel: {data: 2}}}
what_if:
  - name: guessed
    backends: {node*.gpu*: {use: roofline, bandwidth: 3 TB/s, peaks: {bf16: 900 Tflop/s}}}
expect: []
"""


def test_ops_of_unknown_flop_are_named_together_with_the_binding_of_the_variant():
    with pytest.raises(InvalidScenarioError) as told:
        build_variants(loads(FIRST, file="s.yaml"))
    unknown, *others = [p.message for p in told.value.problems if "flop" in p.message]
    assert others == []
    longest = "op 160 (compute:aten::_to_copy fp64[]), op 271 (compute:aten::cat), "
    assert unknown.startswith(longest)
    assert unknown.endswith(
        " more different ops: flop are unknown; bind a backend that does not need them "
        "('recorded'), or record them"
    )
    assert {p.spot.path for p in told.value.problems} == {"backends.node*.gpu*"}
    assert {str(p.spot) for p in told.value.problems} == {"s.yaml:7:34"}


def test_a_run_and_validate_refuse_it_and_validate_without_ops_reads_no_trace(
    cli, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(FIRST)
    assert cli("validate", "--no-ops", "s.yaml") == (0, "ok    s.yaml\n", "")
    code, out, _ = cli("validate", "s.yaml", "--json")
    (*problems,) = json.loads(out)["problems"]
    assert code == 2
    assert {p["kind"] for p in problems} == {"unanswerable"}
    code, out, err = cli("run", "s.yaml")
    assert (code, out) == (2, "")
    assert all(p["message"] in err for p in problems)
    assert "running" not in err
    assert [*tmp_path.glob("runs/*/*")] == []


def test_what_can_be_answered_is_not_refused():
    fine = FIRST.replace(
        "use: roofline, bandwidth: 3 TB/s, peaks: {bf16: 900 Tflop/s}", "use: recorded"
    )
    assert [p.name for p in build_variants(loads(fine))] == ["base", "guessed"]


def test_the_same_ops_are_answered_by_a_chain():
    """Before there were chains, one op of unknown flop refused a whole trace."""
    model = "{use: roofline, bandwidth: 3 TB/s, peaks: {bf16: 900 Tflop/s}}"
    assert model in FIRST
    chain = FIRST.replace(model, f"[{model}, recorded]")
    base, guessed = build_variants(loads(chain))
    assert guessed.run().makespan < base.run().makespan
    alone = FIRST.replace(model, f"[{model}]")
    with pytest.raises(
        InvalidScenarioError, match=r"no backend of the chain \(roofline\) can time it"
    ):
        build_variants(loads(alone))
