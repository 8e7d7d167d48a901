"""Why a collective is done as it is, on the machine of a scenario."""

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.explaining.collective_choice import collective_choice
from foretrace.sim.errors import ScenarioError

SCENARIO = """
foretrace: 1
name: board
cluster:
  nodes: {nodes}
  node:
    gpu: {{model: h100-sxm5-80g, count: 8}}
    nic: {{model: connectx-7, count: 8}}
    links: [{{from: gpu, to: gpu, via: nvlink4}}]
  fabric: {{library: {library}, switch: tomahawk-5{more}}}
workload: {{type: transfers, ops: [{{op: "collective:all-reduce", bytes: 1 MiB}}]}}
"""


def board(nodes=1, library="nccl-nvlink4", more=""):
    return loads(SCENARIO.format(nodes=nodes, library=library, more=more))


def test_the_way_that_is_taken_is_named_with_why():
    found = collective_choice(board(), "all-reduce", "64 MiB")
    (taken,) = [w.name for w in found.ways if w.taken]
    assert taken == "in-switch/simple"
    assert "taken: the fastest one on an idle machine" in str(found)
    assert min(found.ways, key=lambda w: w.seconds).name == taken


def test_parts_of_every_way_sum_to_its_time():
    for way in collective_choice(board(2), "all-reduce", "1 MiB").ways:
        assert way.launch + way.waiting + way.moving == pytest.approx(way.seconds)
        assert min(way.launch, way.waiting, way.moving) >= 0


def test_nccls_own_choice_is_said_to_be_so():
    found = collective_choice(
        board(2, "{model: nccl-nvlink4, choice: nccl}"), "all-reduce", "1 MiB"
    )
    (taken,) = [w for w in found.ways if w.taken]
    assert taken.expected == min(w.expected for w in found.ways)
    assert "NCCL's own tables" in str(found)


def test_a_pin_is_said_to_be_one():
    library = '{model: nccl-nvlink4, algorithm: "all-reduce=ring/ll128"}'
    found = collective_choice(board(1, library), "all-reduce", "64 MiB")
    assert [w.name for w in found.ways] == ["ring/ll128"]
    assert "library.algorithm allows (ring/ll128)" in str(found)


def test_the_command_prints_it(cli, tmp_path):
    file = tmp_path / "board.yaml"
    file.write_text(SCENARIO.format(nodes=1, library="nccl-nvlink4", more=""))
    _, out, _ = cli("explain", "collective:all-gather", "--on", file, "--size", "1 MiB")
    assert "all-gather of 1.05 MB among 8 GPUs" in out
    assert "> ring/ll" in out


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("all-reduce", "64 apples"), "--size: "),
        (("all-reduce", "1 MiB", 9), "--ranks 9: write 2 to 8, the number of GPUs"),
        (("all-reduced", "1 MiB"), "collective 'all-reduced' is unknown; take one of"),
    ],
)
def test_what_cannot_be_explained_is_refused_with_the_cure(asked, message):
    with pytest.raises(ScenarioError, match=message):
        collective_choice(board(), *asked)


@pytest.mark.parametrize(
    ("expand", "collective"),
    [("in-switch", "all-reduce"), ("hierarchical", "all-reduce"), ("hierarchical", "all-to-all")],
)
def test_every_kind_of_algorithm_can_be_written_out_from_a_scenario(expand, collective):
    """Those that reduce in the switch, and those that know nodes: on 1 and 2 machines."""
    from foretrace.scenarios.studies.building.jobs import graph_of

    ranks = list(range(8 if expand == "in-switch" else 16))
    text = SCENARIO.replace(
        'op: "collective:all-reduce"', f'op: "collective:{collective}", from: {ranks}'
    )
    nodes = 1 if expand == "in-switch" else 2
    made = loads(text.format(nodes=nodes, library="nccl-nvlink4", more=f", expand: {expand}"))
    graph = graph_of(made)
    names = {graph.ops.signature_text(i) for i in range(len(graph)) if graph.ops.bytes[i] > 0}
    assert names
    assert all(name.startswith(f"send:{collective}") for name in names)
    assert any("to-switch" in name for name in names) == (expand == "in-switch")
