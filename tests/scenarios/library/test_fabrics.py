"""Fabrics in scenarios: chosen, priced, counted, drawn, led around what is down."""

import json

import pytest
from foretrace.reports.figures.fabric import fabric_svg
from foretrace.reports.run.fabric_parts import fabric_drawing
from foretrace.reports.run.run_page import run_page
from foretrace.reports.section import shown_sections
from foretrace.reports.texts.study import StudyShown
from foretrace.scenarios.config.explanation import explain
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.config.topology_choice import known_topologies
from foretrace.scenarios.studies.building.price import price_per_second
from foretrace.scenarios.studies.building.system import build_system
from foretrace.scenarios.studies.run.run import study
from foretrace.sim.errors import ForetraceError, GraphError

SCENARIO = """\
foretrace: 1
name: permutation
question: What do hashed uplinks cost a permutation?
JOBS
cluster:
  nodes: 8
  node: {gpu: {streams: 1}, nic: {bandwidth: 10 GB/s, latency: 1 us, header: 0 B}}
  fabric:
    topology: {use: fat-tree, routing: ecmp, seed: 1, spines: 2}
    switch: {bandwidth: 5 GB/s, latency: 0 us, ports: 6}
    oversubscription: 2
cost: {items: [{what: switch, each: 3 USD/hour}, {what: cable, each: 1 USD/hour}]}
"""
SCENARIO = SCENARIO.replace("JOBS", "jobs:\n" + "\n".join(
    f"  send{i}: {{workload: {{type: transfers, "
    f"ops: [{{op: 'send:write', bytes: 100 MB, to: 1}}]}}, "
    f"on: {{gpu: [node{i}.gpu0, node{i + 4}.gpu0]}}}}"
    for i in range(4)
))  # fmt: skip
TOPOLOGY = "topology: {use: fat-tree, routing: ecmp, seed: 1, spines: 2}"


def with_topology(text, ports=64):
    made = SCENARIO.replace(TOPOLOGY, f"topology: {text}").replace("oversubscription: 2", "")
    return made.replace("ports: 6", f"ports: {ports}")


def names(system, a, b):
    return [
        [system.components[c].name for c in r.components]
        for r in system.routes(system.numbers[a], system.numbers[b])
    ]


SETTINGS = {
    "dragonfly": "{use: dragonfly, routers: 2, nics: 1, global_links: 2}",
    "fat-tree": "fat-tree",
    "graph": "{use: graph, file: FILE}",
    "rail": "rail",
    "torus": "{use: torus, shape: [2, 4]}",
}


def test_every_topology_that_explain_offers_joins_the_machines(tmp_path):
    assert set(SETTINGS) == set(known_topologies())
    offered = next(
        line for line in str(explain("cluster.fabric.topology")).splitlines() if "values" in line
    )
    (tmp_path / "net.yaml").write_text('links: [{from: "node*.nic0", to: hub0}]')
    for name, text in SETTINGS.items():
        assert name in offered
        told = text.replace("FILE", str(tmp_path / "net.yaml"))
        system = build_system(loads(with_topology(told)))
        for there in range(1, 8):
            assert system.bandwidth(system.numbers[0], system.numbers[there]) > 0


def makespan(text):
    return max(
        value["value"]
        for name, value in study(loads(text)).summary.points["base"]["metrics"].items()
        if name.endswith("makespan")
    )


def test_hashed_flows_meet_on_an_uplink_and_pooled_ones_do_not():
    """Four flows on two uplinks of 5 GB/s: 40 ms in the pool; hashed 40, 60 or 80, by the seed."""
    times = [makespan(SCENARIO.replace("seed: 1", f"seed: {seed}")) for seed in range(6)]
    assert {round(t * 1e3) for t in times} <= {40, 60, 80}
    assert max(times) > 0.059
    for pool in ("topology: fat-tree", "topology: {use: fat-tree, routing: spray, spines: 2}"):
        assert makespan(SCENARIO.replace(TOPOLOGY, pool)) == pytest.approx(0.04, rel=1e-3)


def test_switches_and_cables_are_priced():
    """Two leaves and two spines, eight cables to NICs and four between switches."""
    assert price_per_second(loads(SCENARIO)) * 3600 == pytest.approx(4 * 3 + 12 * 1)


@pytest.mark.parametrize("down", ["leaf0.spine1", "spine1.leaf1"])
def test_flows_are_led_around_an_uplink_that_is_down(down):
    whole = build_system(loads(SCENARIO))
    used = {n for i in range(4) for n in names(whole, i, 4 + i)[0]}
    assert down in used
    hurt = build_system(loads(SCENARIO, set=[f"cluster.override.{down}.down=true"]))
    assert not any(down in way for i in range(4) for way in names(hurt, i, 4 + i))
    assert hurt[down].rate == 0


def test_a_leaf_without_uplinks_is_named_with_the_links_that_are_down():
    with pytest.raises(GraphError, match=r"no route leads from node0.nic0 to node4.nic0; these "
                       r"links are down: leaf0.spine0, leaf0.spine1; bring one up"):  # fmt: skip
        build_system(loads(SCENARIO, set=["cluster.override.leaf0.spine*.down=true"]))


def test_a_pool_of_uplinks_that_is_down_stays_what_it_was():
    pool = SCENARIO.replace(TOPOLOGY, "topology: fat-tree")
    system = build_system(loads(pool, set=["cluster.override.leaf0.up.down=true"]))
    assert names(system, 0, 4)[0][1] == "leaf0.up"


def test_a_file_of_links_is_found_from_the_folder_of_the_scenario(tmp_path):
    (tmp_path / "net.yaml").write_text('links: [{from: "node*.nic0", to: hub0}]')
    file = tmp_path / "s.yaml"
    file.write_text(with_topology("{use: graph, file: net.yaml}"))
    assert names(build_system(load(file)), 0, 1)[0][1:3] == ["node0.nic0.hub0", "hub0.node1.nic0"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{use: torus}", "cluster.fabric.topology: 'shape' is missing"),
        ("{use: torus, shape: [3, 3]}", "torus of 9 machines, and 8 have NICs; give a shape whose"),
        ("{use: fat-tree, routing: hash}", "'hash' is not one of: pool, ecmp, spray"),
        ("{use: fat-tree, routing: pool, paths: 2}", "pooled uplinks do not use it"),
        ("{use: torus, shape: [8], paths: 2}", "unknown key 'paths'"),
        ("{use: dragonfly, routers: 0, nics: 1, global_links: 1}", "routers is 0; give 1 or more"),
        ("{use: graph, file: none.yaml}", "none.yaml"),
        (
            "hypercube",
            "no topology named 'hypercube'; known here: dragonfly, fat-tree, graph, rail, torus",
        ),
    ],
)
def test_what_a_topology_cannot_be_is_refused(text, said):
    with pytest.raises((InvalidScenarioError, ForetraceError)) as caught:
        build_system(loads(with_topology(text)))
    assert said in str(caught.value)


def test_oversubscription_said_with_the_topology_is_doubted_too():
    text = with_topology("{use: fat-tree, oversubscription: 3}")
    assert [w.message for w in loads(text).warnings] == [
        "'10 GB/s' is not reached: a switch port has only 40 Gb/s; give "
        "cluster.fabric.switch another model or bandwidth",
        "'3' has no effect: 8 NICs fit on one leaf switch of 64 ports, so there is no spine; "
        "leave it out, or write a smaller cluster.fabric.switch.ports",
    ]


def test_gpus_of_one_domain_talk_over_its_links():
    text = with_topology("fat-tree").replace(
        "node: {gpu: {streams: 1},",
        "node: {links: [{from: gpu, to: gpu, bandwidth: 900 GB/s, latency: 1 us}], "
        "gpu: {streams: 1},",
    )
    system = build_system(loads(text, set=["cluster.fabric.gpu_domain=4"]))
    assert names(system, 0, 3) == [["node0.gpu0.tx", "node3.gpu0.rx"]]
    assert names(system, 0, 4)[0][0] == "node0.nic0.tx"
    crossed = system.crossings(list(system.numbers[:2]), [system.numbers[3], system.numbers[4]])
    first = [system.components[c].name for c in crossed.component[crossed.flow == 0].tolist()]
    assert first == ["node0.gpu0.tx", "node3.gpu0.rx"]


# The report.


@pytest.fixture(scope="module")
def shown():
    what_if = "what_if: [{name: one, set: {cluster.fabric.topology: fat-tree,"
    made = study(loads(f"{SCENARIO}{what_if} cluster.fabric.switch.ports: 64}}}}]\n"))
    summary = json.loads(json.dumps(made.summary.to_dict()))
    run = {"resolved": "", "command": "foretrace run s.yaml", "run": "0", "title": "",
           "timeline_cut": ""}  # fmt: skip
    return StudyShown(summary, made.results, run)


def test_the_summary_counts_leaves_spines_and_cables(shown):
    assert shown.base["fabric"]["switches"] == {"leaf": 2, "spine": 2}
    assert shown.base["fabric"]["cables"] == [
        {"low": "NIC", "high": "leaf", "number": 8},
        {"low": "leaf", "high": "spine", "number": 4},
    ]


def test_the_page_counts_prices_and_draws_the_fabric_and_says_where_there_is_no_spine(shown):
    (section,) = shown_sections("run", shown, ["fabric"])
    table, sentence, *rest = section.blocks
    (drawing,) = (block for block in rest if hasattr(block, "tiers"))
    assert [row[0] for row in table.rows] == ["base", "one"]
    assert list(table.rows[0])[1:] == ["fat-tree", "2", "2", "8", "4", "24 USD"]
    assert list(table.rows[1])[1:] == ["fat-tree", "1", "0", "8", "0", "11 USD"]
    assert sentence.line.startswith("one: one leaf switch connects all NICs: there is no spine")
    assert [t.boxes for t in drawing.tiers] == [["spine0", "spine1"], ["leaf0", "leaf1"]]
    assert len(drawing.joins) == 4
    page = run_page(shown.summary, shown.results, shown.run)
    assert "leaf1 to spine0: 1 cable" in page


def test_many_switches_are_drawn_as_a_box_for_each_kind():
    cables = [{"low": "NIC", "high": "leaf", "number": 65_536},
              {"low": "leaf", "high": "spine", "number": 65_536}]  # fmt: skip
    facts = {"switches": {"leaf": 2048, "spine": 2048}, "cables": cables, "joins": []}
    drawing = fabric_drawing(facts)
    assert [t.boxes for t in drawing.tiers] == [["2,048 spines"], ["2,048 leaves"]]
    assert "65,536 cables" in fabric_svg(drawing)


def test_a_fabric_without_switches_is_not_drawn():
    assert fabric_drawing({"switches": {}, "cables": [], "joins": []}) is None


def test_uplinks_that_are_one_link_of_each_leaf_are_drawn_as_dark_as_they_are_used():
    facts = {"switches": {"leaf": 3, "spine": 1}, "joins": [],
             "cables": [{"low": "leaf", "high": "spine", "number": 21}]}  # fmt: skip
    loads = {("leaf0", "up"): 0.5, ("leaf1", "up"): 0.1, ("leaf0", "down"): 0.2}
    drawing = fabric_drawing(facts, loads)
    ((low, high, said),) = drawing.joins
    assert (low, high) == ("3 leaves", "1 spine")
    assert said.endswith("21 cables, in use: 3 leaves to 1 spine 30 %, 1 spine to 3 leaves 20 %")
    assert drawing.loads == [pytest.approx(0.3)]
