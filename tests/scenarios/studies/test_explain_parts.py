"""Names that answers, pages and overrides print are explained, with and without a machine."""

import json
import re

import pytest
from by_day import only
from foretrace.models.network.topology.topology import TOPOLOGIES
from foretrace.reports.texts.answer import answer_sentences
from foretrace.scenarios.config.component_names import BOXES as BOXES_EXPLAINED
from foretrace.scenarios.config.explanation import explain
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.studies.building.system import build_system
from foretrace.scenarios.studies.explaining.part_explanation import form_of_name, parts_named
from foretrace.scenarios.studies.explaining.run_explanation import explain_on
from foretrace.scenarios.studies.run.run import study
from foretrace.sim.analysis.blame import GAP, PROCESS, RELEASE
from foretrace.sim.errors import ScenarioError
from foretrace.sim.record.aggregates import BOXES

MACHINE = """\
foretrace: 1
name: machine
workload: {type: transfers, ops: [{op: "send:write", bytes: 1 MB, from: [0], to: 8}]}
cluster:
  nodes: 4
  node:
    gpu: {model: h100-sxm5-80g, count: 8}
    host: xeon-8480c-dual
    nic: {model: connectx-7, count: 8, bandwidth: 200 Gb/s}
    links:
      - {from: gpu, to: gpu, via: nvlink4}
      - {from: gpu, to: host, via: pcie5-x16}
      - {from: gpu, to: nic, via: pcie5-x16}
  fabric:
    library: nccl-nvlink4
    switch: {model: tomahawk-5, ports: 16}
    oversubscription: 1.5
  override:
    node3.gpu*: {slowdown: 1.3}
    node2.nic0.tx: {down: true}
"""


@pytest.fixture(scope="module")
def scenario():
    return loads(MACHINE)


def test_uplinks_say_their_rate_and_whose_data_cross_them(scenario):
    told = explain_on("leaf1.up", scenario)
    assert told.what == "All links from a leaf to the spines, as one pool (routing: pool)."
    assert told.facts["rate"] == "267 GB/s, shared by concurrent ops"  # 8 x 50 GB/s / 1.5
    assert told.facts["used by"] == "data from 8 GPUs of node1 to 24 GPUs of node0, node2, node3"
    assert told.below["cluster.fabric.oversubscription"].startswith("1.5  (written at <text>:")
    assert told.below["cluster.fabric.switch.bandwidth"].startswith("400 Gbit/s  (datasheet: ")


def test_a_link_to_a_nic_says_who_says_its_rate_and_how_wrong_that_may_be(scenario):
    told = explain_on("node0.gpu0.to_nic", scenario)
    assert told.what == "The link from a GPU to its NIC (links: from gpu, to nic)."
    assert told.facts["rate"] == "52.5 GB/s, shared by concurrent ops"
    assert told.facts["used by"] == "data from node0.gpu0 to 24 GPUs of node1, node2, node3"
    assert told.facts["doubt"] == (
        "unmeasured rates: 0.869 to 1.15 times the stated value (90 %); "
        "unmeasured times: 0.379 to 2.64 times the stated value (90 %)"
    )
    assert told.below["cluster.node.links.2.efficiency"].startswith("0.833  (assumed: ")


def test_a_nic_a_machine_and_a_switch_list_their_parts(scenario):
    nic = explain_on("node0.nic0", scenario)
    assert nic.below["cluster.node.nic.bandwidth"].startswith("200 Gb/s  (written at <text>:9:")
    assert nic.below["node0.nic0.tx"].startswith("The sending direction of a NIC. (rate ")
    node = explain_on("node1", scenario)
    assert node.below["node1.gpu0 … node1.gpu7"] == (
        "A GPU; its streams run kernels. (streams 128 at once)"
    )
    leaf = explain_on("leaf0", scenario)
    assert leaf.below["leaf0.node0.nic0 … leaf0.node0.nic7"].startswith("The switch port to a NIC.")


def test_a_gpu_says_its_rank_its_backend_and_its_override(scenario):
    told = explain_on("node3.gpu1", loads(MACHINE + 'backends: {"node*.gpu*": {use: roofline}}\n'))
    assert told.facts["used by"] == "rank 25, if there are that many ranks"
    assert (told.facts["answers"], told.facts["override"]) == ("roofline", "1.3 times slower")
    glob = explain_on("node3.gpu*", scenario)
    assert glob.facts["override"] == "1.3 times slower"
    assert list(glob.below)[-1] == "node3.gpu0 … node3.gpu7"  # as an override means it
    down = explain_on("node2.nic0.tx", scenario).facts
    assert (down["override"], down["rate"]) == ("down", "0 B/s, shared by concurrent ops")


def test_what_only_a_variant_has_says_so(scenario):
    more = loads(MACHINE + "what_if: [{name: twice, set: {cluster.nodes: 8}}]\n")
    assert explain_on("node7.gpu0", more).facts["only in"] == "twice"
    assert explain_on("twice", more).below == {"cluster.nodes": "4 -> 8"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "leaf9.up",
            "nothing in this scenario has the name 'leaf9.up'; there are leaf0.up … leaf3.up",
        ),
        (
            "node0.gqu0.tx",
            "nothing in this scenario has the name 'node0.gqu0.tx'; did you mean 'node0.gpu0.tx'?",
        ),
        ("cluster.nods", "nothing has the name 'cluster.nods'; did you mean 'cluster.nodes'?"),
    ],
)
def test_a_name_that_nothing_has_is_answered_with_those_near(scenario, name, said):
    with pytest.raises(ScenarioError, match=re.escape(said)):
        explain_on(name, scenario)


def test_a_setting_says_its_value_there(scenario):
    assert explain_on("cluster.nodes", scenario).facts["here"] == "4 (written at <text>:5:10)"


@pytest.mark.parametrize(
    "name", ["leaf1.up", "node0.gpu0.to_nic", "node0.nic0", "node12", "spine3"]
)
def test_a_name_without_a_machine_says_what_it_is_and_where_to_ask(name):
    told = explain(name)
    assert told.what
    assert told.facts["here"].startswith(f"foretrace explain {name} --on SCENARIO")


@pytest.mark.parametrize("name", [RELEASE, PROCESS, GAP, *BOXES, *BOXES_EXPLAINED])
def test_reasons_and_boxes_of_time_are_explained(name):
    assert explain(name).what


def test_every_form_of_name_that_a_fabric_makes_is_known():
    """But for those of files and plug-ins, whose names are the user's."""
    shapes = {"fat-tree": "", "rail": "", "torus": ", shape: [2, 4]",
              "dragonfly": ", routers: 2, nics: 2, global_links: 1"}  # fmt: skip
    assert shapes.keys() == TOPOLOGIES.keys() - {"graph"} - {
        name for name, cls in TOPOLOGIES.items() if not cls.__module__.startswith("foretrace.")
    }
    texts = [f"{{use: {use}{more}}}" for use, more in shapes.items()]
    for text in [
        *texts,
        "{use: fat-tree, routing: spray}",
        "{use: fat-tree, routing: ecmp, tiers: 3}",
    ]:
        settings = [f"cluster.fabric.topology={text}", "cluster.nodes=8", "cluster.override={}",
                    "cluster.node.gpu.count=1", "cluster.node.nic.count=1",
                    "cluster.fabric.switch.ports=4",
                    "cluster.fabric.oversubscription=1"]  # fmt: skip
        system = build_system(loads(MACHINE, set=settings))
        for form in {form_of_name(c.name): c.name for c in system.components}.values():
            assert explain(form).what, form


def names_printed(scenario, summary):
    """Names of parts, kinds, settings, variants, metrics and reasons of an answer and its page."""
    yield from scenario.cluster.override
    yield from scenario.backends
    yield from (v.variant for v in scenario.others)
    yield from (scenario.jobs if scenario.section("jobs") else ())
    told = summary["provenance"]
    yield from (value["path"] for value in told["values"])
    yield from (one["component"] for one in told.get("break_even", ()))
    for variant, point in zip(scenario.variants(), summary["points"].values(), strict=True):
        yield from point["blame"]
        yield from point["activity"]
        yield from (one["group"] for one in point["faster"])
        yield from (one["source"].removeprefix("family ") for one in point.get("errors", ()))
        yield from (end for low, high, _ in point.get("fabric", {}).get("joins", ())
                    for end in (low, high))  # fmt: skip
        yield from (part["part"] for job in point.get("jobs", {}).values()
                    for part in job["slowed_at"])  # fmt: skip
        yield from {form_of_name(name): name for name in point["metrics"]}.values()
        parts = build_system(variant).components
        yield from {form_of_name(part.name): part.name for part in parts}.values()
        yield from {part.node for part in parts if part.node}
    text = "\n".join(answer_sentences(summary))
    yield from re.findall(r"\b[a-z_]+\d+(?:\.[a-z_]+\d*)+", text)


def assert_all_explained(name, quick):
    scenario = load(name, set=["run.quick=true"] if quick else [])
    summary = json.loads(json.dumps(study(scenario).summary.to_dict()))
    names = dict.fromkeys(names_printed(scenario, summary))
    assert len(names) > 40
    for printed in names:
        told = explain_on(printed, scenario, summary["points"])
        assert told.what or told.facts, printed
        if parts_named(printed, build_system(scenario)) or "only in" in told.facts:
            assert told.facts["busy"], printed
            assert told.facts["critical path"], printed


@pytest.mark.parametrize("name", only(["slow-nic"], ["slow-nic", "first"]))
def test_every_name_that_a_run_prints_is_explained(name):
    assert_all_explained(name, quick=True)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["hot-tenant", "failing-spine", "thin-spine", "experts-fabric"])
def test_every_name_that_a_whole_run_prints_is_explained(name):
    assert_all_explained(name, quick=False)


def test_a_saved_run_says_how_busy_a_part_was(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli("run", "slow-nic", "--quick", "--set", "what_if=[]", "-q")[0] == 0
    (folder,) = (tmp_path / "runs" / "slow-nic").iterdir()
    code, out, err = cli("explain", "node15.nic0.tx", "--on", folder)
    assert (code, err) == (0, "")
    lines = dict(line.strip().split(maxsplit=1) for line in out.splitlines()[2:])
    assert lines["override"] == "10 times slower"
    assert re.fullmatch(r"[\d.]+ % on average, [\d.]+ % in its busiest hundredth", lines["busy"])
    assert cli("explain", "node15.nic0.tx", "--on", folder.parent)[1] == out
    told = json.loads(cli("explain", "node15.nic0.tx", "--on", "slow-nic", "--json")[1])
    assert told["facts"]["override"] == "10 times slower"
    assert "busy" not in told["facts"]  # of a scenario nobody knows
