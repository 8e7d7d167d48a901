"""``--set``, ``what_if`` and ``extends``: who wins, and what is said when they cannot."""

import pytest
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.sim.setting_groups import flatten_settings

PARENT = """\
foretrace: 1
name: parent
workload: {trace: t/a.json, iterations: {warm_up: 2}}
cluster:
  nodes: 2
  node: {gpu: {count: 8, bandwidth: 3 TB/s}, links: [{from: gpu, to: gpu, latency: 1 us}]}
backends: {node*.gpu*: {use: roofline, bandwidth: 3 TB/s}, fabric: fabric}
expect: [{that: iteration_time.p50 <= 1 s}]
report: {title: Parent}
"""


def said(call, *arguments, **options):
    with pytest.raises(InvalidScenarioError) as caught:
        call(*arguments, **options)
    return str(caught.value)


def test_set_wins_over_the_file(scenario):
    s = scenario(set=["cluster.nodes=4", "cluster.node.nic.bandwidth=100 Gb/s", "run.seed=3"])
    assert (s.cluster.nodes, s.run.seed) == (4, 3)
    assert s.cluster.node.nic.settings["bandwidth"] == 12.5e9
    origin = s.origins["cluster.nodes"]
    assert (origin.layer, origin.text, origin.where) == ("--set", "4", "--set:1:15")


def test_set_reaches_names_that_hold_dots(scenario):
    settings = ["backends.node*.gpu*.launch=9 us", "cluster.override.node1.nic0.slowdown=2"]
    s = scenario(set=settings)
    assert s.backends["node*.gpu*"].settings["launch"] == 9e-6
    assert s.cluster.override["node1.nic0"].slowdown == 2.0
    assert s.cluster.override["node3.gpu*"].slowdown == 1.3


def test_set_takes_lists_mappings_and_items_of_lists(scenario):
    s = scenario(set=["what_if=[]", "cluster.node.links.1.latency=7 us", "run={replicas: 2}"])
    assert s.variants() == (s,)
    assert s.cluster.node.links[1].link.settings["latency"] == 7e-6
    assert (s.run.seed, s.run.replicas) == (7, 2)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("cluster.nods=4", "'cluster.nods' is not a setting; did you mean 'cluster.nodes'?"),
        ("cluster.nodes", "'cluster.nodes' is not a setting; write it like cluster.nodes=4"),
        ("=4", "'=4' is not a setting; write it like cluster.nodes=4"),
        ("cluster.nodes=0", "'0' must be at least 1"),
        ("cluster.nodes.x=0", "'cluster.nodes.x' is not a setting; 'cluster.nodes' has no keys"),
        ("what_if.7.name=x", "'what_if.7.name' is not a setting; 'what_if' has 3 items"),
        ("cluster.node.nic.latency=[", "'[': not YAML: while parsing a flow node"),
        ("cluster.node.nic.latency=5", "'5' has no unit; write for example '5 us'"),
        ("swep.points=5", "'swep.points' is not a setting"),
    ],
)
def test_a_wrong_setting_is_named_as_it_was_given(scenario, setting, message):
    found = said(scenario, set=["run.seed=1", setting])
    if setting.startswith("swep"):
        message = "'swep' is not a setting"
    assert found.startswith(f"error {message}")
    assert "\n  --set:2:" in found
    assert f" 2 | {setting}" in found


def test_a_variant_differs_only_in_what_it_says(scenario):
    base, nic, offload, both = scenario().variants()
    assert [v.variant for v in (base, nic, offload, both)] == ["base", "nic-400", "offload", "both"]
    bandwidths = [v.cluster.node.nic.settings["bandwidth"] for v in (base, nic, offload, both)]
    assert bandwidths == [25e9, 50e9, 25e9, 50e9]
    sizes = [v.cluster.node.cxl.settings["size"] for v in (base, nic, offload, both)]
    assert sizes == [0, 0, 512e9, 512e9]
    prices = [v.cost.items[1].each * 3600 for v in (base, nic, both)]
    assert prices == pytest.approx([0.06, 0.11, 0.11])
    changed = {k for k, v in nic.settings().items() if v != base.settings()[k]}
    assert changed == {"cluster.node.nic.bandwidth", "cost.items.1.each"}


def test_a_variant_can_use_variants_that_come_after_it(scenario, whole):
    text = whole.replace(
        "  - name: nic-400\n", "  - name: early\n    use: [both]\n  - name: nic-400\n"
    )
    early = scenario(text).variants()[1]
    assert early.cluster.node.nic.settings["bandwidth"] == 50e9
    assert early.cluster.node.cxl.settings["size"] == 512e9


def test_a_variant_can_name_another_model_and_other_backends(scenario, whole):
    text = whole.replace(
        "    set: {cluster.node.nic.bandwidth: 400 Gb/s}",
        "    set: {cluster.node.gpu.model: test-gpu-40g}\n"
        "    override: {node0.gpu0: {down: true}}\n"
        "    backends: {node*.gpu*: {use: recorded}, fabric: {use: fabric, fidelity: flow}}",
    )
    base, variant, *_ = scenario(text).variants()
    assert variant.cluster.node.gpu.settings == {"bandwidth": 1e12}
    assert base.cluster.node.gpu.settings["memory"] == 80e9
    assert variant.cluster.override["node0.gpu0"].down
    assert variant.cluster.override["node3.gpu*"].slowdown == 1.3
    assert variant.backends["node*.gpu*"].use == "recorded"
    assert variant.backends["node*.gpu*"].settings == {}
    assert variant.backends["fabric"].settings == {"fidelity": "flow"}


def test_an_unknown_model_in_a_variant_is_told_once_and_there(edited):
    found = edited(
        "set: {cluster.node.nic.bandwidth: 400 Gb/s}", "set: {cluster.node.nic.model: test-nic-8}"
    )
    assert found.count("error ") == 1
    assert found.startswith("error no nic model named 'test-nic-8'; did you mean 'test-nic-7'?")
    assert "s.yaml:38:35  what_if.0.set" in found


def test_extends_merges_mappings_and_replaces_lists(files):
    child = (
        "extends: parent.yaml\nname: child\ncluster: {nodes: 4, node: {gpu: {count: 4}, links: []}}"
    )
    files(parent=PARENT, child=child)
    s = load("child.yaml")
    assert (s.name, s.cluster.nodes, s.cluster.node.gpu.count) == ("child", 4, 4)
    assert s.cluster.node.gpu.settings == {"bandwidth": 3e12}
    assert s.cluster.node.links == ()
    assert s.workload.iterations.warm_up == 2
    assert s.origins["cluster.nodes"].layer == "scenario"
    assert s.origins["cluster.node.gpu.bandwidth"].layer == "extends"
    assert s.origins["cluster.node.gpu.bandwidth"].where == "parent.yaml:6:37"


def test_extends_brings_no_expectations_and_no_report(files):
    files(parent=PARENT, child="extends: parent.yaml\nname: child")
    s = load("child.yaml")
    assert load("parent.yaml").expect[0].that.limit == 1.0
    assert s.expect == ()
    assert s.report.title == ""


def test_another_backend_keeps_no_settings_of_the_first(files):
    files(parent=PARENT, child="{extends: parent.yaml, name: c, backends: {node*.gpu*: recorded}}")
    s = load("child.yaml")
    assert {k: b.use for k, b in s.backends.items()} == {
        "node*.gpu*": "recorded",
        "fabric": "fabric",
    }
    assert s.backends["node*.gpu*"].settings == {}


def test_files_are_found_from_the_file_that_names_them(files):
    folder = files(parent=PARENT)
    (folder / "below").mkdir()
    (folder / "below" / "child.yaml").write_text("extends: ../parent.yaml\nname: child\n")
    assert load("below/child.yaml").workload.trace == str(folder / "t" / "a.json")
    moved = load("below/child.yaml", set=["workload.trace=b.json"])
    assert moved.workload.trace == str(folder / "b.json")


def test_a_bundled_trace_stays_a_name(scenario, whole):
    s = scenario(whole.replace("traces/rank*.json.gz", "foretrace:ddp-resnet50"))
    assert s.workload.trace == "foretrace:ddp-resnet50"


def test_a_circle_of_extends_is_refused(files):
    files(a="extends: b.yaml\nname: a", b="extends: a.yaml\nname: b")
    found = said(load, "a.yaml")
    assert found.startswith("error 'a.yaml' extends this file too; remove one of the two 'extends'")
    assert "b.yaml:1:10  extends" in found


def test_a_parent_that_is_not_there_is_told_where_it_is_named(files):
    files(child="name: c\nextends: parnt.yaml\n")
    found = said(load, "child.yaml")
    assert "no file 'parnt.yaml' to extend; write its path from the folder of this file" in found
    assert "child.yaml:2:10  extends" in found


def test_a_mistake_in_a_parent_is_told_in_its_file(files):
    files(parent=PARENT.replace("nodes: 2", "nodes: two"), child="extends: parent.yaml\nname: c")
    assert "'two' is not a whole number\n  parent.yaml:5:10  cluster.nodes" in said(
        load, "child.yaml"
    )


def test_precedence_is_catalog_extends_scenario_set(catalog, files):
    parent = PARENT.replace(
        "bandwidth: 3 TB/s}, links", "model: test-gpu-80g, memory: 70 GB}, links"
    )
    gpu = "{peaks: {bf16: 1 Tflop/s}, launch: 1 us}"
    child = f"extends: parent.yaml\nname: c\ncluster: {{node: {{gpu: {gpu}}}}}"
    files(parent=parent, child=child)
    s = load("child.yaml", set=["cluster.node.gpu.launch=2 us"], catalogs=[catalog])
    names = ("bandwidth", "memory", "peaks.bf16", "launch")
    layers = [s.origins[f"cluster.node.gpu.{name}"].layer for name in names]
    assert layers == ["catalog", "extends", "scenario", "--set"]
    values = [flatten_settings(s.cluster.node.gpu.settings)[name] for name in names]
    assert values == [3e12, 70e9, 1e12, 2e-6]
    assert s.origins["cluster.fabric.fidelity"].layer == "default"


def test_loads_and_load_agree(files):
    files(parent=PARENT)
    assert load("parent.yaml").digest() == loads(PARENT).digest()
