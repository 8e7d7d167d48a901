"""What a run will refuse is refused when the file is read, with its place; names are explained."""

import pytest
from foretrace.reports.numbers import format_quantity, format_signed_share, is_overall
from foretrace.scenarios.config.explanation import explain
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.problems import InvalidScenarioError

SCENARIO = """\
foretrace: 1
name: resized
question: q
workload:
  trace: foretrace:gpt
  recorded_on: {{device: epyc-zen4-core, nodes: 1{recorded}}}
  scale_to: {{parallel: {wanted}}}
cluster:
  nodes: 64
  node: {{gpu: epyc-zen4-core, host: epyc-zen4-vm, nic: {{model: loopback-tcp}}}}
  fabric: {{library: gloo}}
"""


def resized(wanted, recorded=""):
    return loads(SCENARIO.format(wanted=wanted, recorded=recorded))


@pytest.mark.parametrize(
    ("group", "recorded", "why"),
    [
        ("tensor", ", parallel: {tensor: 2}", "does not say how the GEMMs of a rank were split"),
        ("pipeline", "", "does not say the layers and the messages of a stage of another length"),
        ("expert", "", "does not say which tokens go to which expert"),
        ("context", "", "does not say the time of a part of a sequence"),
    ],
)
def test_a_group_that_cannot_be_resized_is_refused_with_its_place_and_why(group, recorded, why):
    with pytest.raises(InvalidScenarioError) as caught:
        resized(f"{{{group}: 4, data: 8}}", recorded)
    (problem,) = caught.value.problems
    assert problem.spot.line == 7
    assert problem.spot.path == f"workload.scale_to.parallel.{group}"
    assert why in problem.message
    assert problem.message.endswith("or describe the model (workload.type: training)")


def test_tensor_parallel_ranks_of_whole_layers_are_accepted_when_the_file_is_read():
    resized("{tensor: 2, data: 8}")


def test_groups_that_stay_as_recorded_are_accepted():
    resized("{tensor: 4, data: 8}", recorded=", parallel: {tensor: 4}")
    resized("{data: 8}")


def test_an_explanation_is_a_whole_sentence():
    assert explain("workload.ops.op").what.endswith("is one op of all its ranks.")
    assert "a failed link. ``node3.gpu*`` matches" in explain("cluster.override").what


def test_a_collective_without_its_kind_is_told_how_to_write_it():
    text = "{type: transfers, ops: [{op: all-reduce, bytes: 1 MB, from: [0, 1]}]}"
    described = SCENARIO[: SCENARIO.index("  trace")].removesuffix("workload:\n")
    rest = SCENARIO[SCENARIO.index("cluster:") :].replace("{{", "{").replace("}}", "}")
    with pytest.raises(InvalidScenarioError, match="write it like collective:all-reduce"):
        loads(f"{described}workload: {text}\n{rest}")


def test_what_is_emitted_without_a_unit_is_a_number_and_no_share():
    assert format_quantity(1.0, "1") == "1"
    assert is_overall("moved rank.p50")
    assert is_overall("node0.queue")
    assert not is_overall("node0.nic0.tx.utilization")


def test_a_model_by_its_description_is_named_by_the_workload_that_runs_one():
    rest = SCENARIO[SCENARIO.index("cluster:") :].replace("{{", "{").replace("}}", "}")
    text = f"foretrace: 1\nname: n\nquestion: q\nworkload: {{type: transformer}}\n{rest}"
    with pytest.raises(
        InvalidScenarioError, match=r"no workload type .*there is: trace, training, transfers"
    ):
        loads(text)


def test_a_change_from_nothing_is_no_infinite_share():
    assert format_signed_share(float("inf")) == "from 0"


@pytest.mark.parametrize("op", ["all-reduce:sum", "all_reduce"])
def test_a_collective_written_without_its_kind_is_told_how_it_is_written(op):
    head, _, below = SCENARIO.format(recorded="", wanted="{}").partition("workload:")
    ops = f'workload: {{type: transfers, ops: [{{op: "{op}", bytes: 1 MB}}]}}\n'
    with pytest.raises(InvalidScenarioError, match="write it like collective:all-reduce"):
        loads(head + ops + below[below.index("cluster:") :])
