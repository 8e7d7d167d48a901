"""``media``: a scenario names who shares what is in flight, and is told what carries what."""

import json
from pathlib import Path

import foretrace
import pytest
from foretrace.scenarios.cli.app import app
from foretrace.scenarios.config import installed_plugins, settings
from foretrace.scenarios.config.explanation import explain
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.plugin_loading import unload_plugin_file
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.studies.run.plan import plan
from foretrace.scenarios.studies.variants.variants import build_variant, build_variants
from foretrace.sim.engine_api.medium_api import MEDIA
from foretrace.sim.errors import GraphError, ScenarioError
from typer.testing import CliRunner

PLUGIN = Path(foretrace.__file__).parent / "docs" / "examples" / "plugins" / "store_and_forward.py"
QUEUED = "store-and-forward"
SCENARIO = f"""\
foretrace: 1
name: incast
question: Who waits where?
plugins: [{PLUGIN}]
workload: {{type: transfers, ops: [{{op: "send:write", bytes: 1 MB, from: [0, 1, 2], to: 3}}]}}
cluster:
  nodes: 4
  node: {{gpu: {{streams: 1}}, nic: {{bandwidth: 10 GB/s, latency: 0 us, header: 0 B}}}}
  fabric: {{topology: {{use: fat-tree, routing: ecmp}},
           switch: {{bandwidth: 10 GB/s, latency: 0 us, ports: 4}}}}
answer: {{minimize: makespan}}
run: {{engine: reference}}
"""
NETWORK = f'media: {{"*.nic*": {QUEUED}, "leaf*": {QUEUED}}}\n'


@pytest.fixture(autouse=True, scope="module")
def alone():
    """What the plug-in adds is nothing that other tests see."""
    yield
    unload_plugin_file(PLUGIN)


def ends(text):
    return sorted(build_variant(loads(text)).run().end.round(9).tolist())


def test_messages_of_an_incast_queue_in_the_medium_that_is_named():
    """100 us a port: two ports each, then one after the other at the last one's port and NIC."""
    assert ends(SCENARIO) == [3e-4, 3e-4, 3e-4]
    assert ends(SCENARIO + NETWORK) == pytest.approx([3e-4, 4e-4, 5e-4])


def test_a_variant_may_name_a_medium_and_take_it_back():
    back = NETWORK.replace(QUEUED, "max-min")
    assert ends(SCENARIO + back) == ends(SCENARIO)
    variants = "what_if: [{name: queued, set: {media: {'*.nic*': NAME, 'leaf*': NAME}}}]\n"
    base, queued = build_variants(loads(SCENARIO + variants.replace("NAME", QUEUED)))
    assert base.run().makespan < queued.run().makespan


def test_the_plan_says_which_medium_carries_what():
    carried = {"node*.nic*.tx": 4, "node*.nic*.rx": 4, "leaf*.node*.nic*": 4}
    assert plan(loads(SCENARIO + NETWORK)).media == {"base": {QUEUED: carried, "max-min": {}}}
    assert plan(loads(SCENARIO)).media == {}


def test_the_plan_prints_it(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(SCENARIO + NETWORK)
    said = CliRunner().invoke(app, ["plan", str(file)]).stdout
    assert "media     store-and-forward carries node*.nic*.tx (4), node*.nic*.rx (4)" in said
    assert "media     max-min carries nothing" in said
    told = json.loads(CliRunner().invoke(app, ["plan", str(file), "--json"]).stdout)
    assert told["media"]["base"][QUEUED]["leaf*.node*.nic*"] == 4


@pytest.mark.parametrize(
    ("media", "said"),
    [
        ("{'leaf*': store-and-forwrd}", "no medium named 'store-and-forwrd'; did you mean "
                                        "'store-and-forward'?; if a plug-in defines it, list the "
                                        "plug-in's file under 'plugins'"),
        ("{'leaf*': {use: store-and-forward, depth: 3}}", "unknown key 'depth'"),
        ("{'leaf*': {depth: 3}}", "'use' is missing; write use: NAME, the name of the medium"),
        ("{'leaf*': 3}", "a medium needs a name; write it like {use: NAME, …}"),
    ],
)  # fmt: skip
def test_a_medium_that_is_wrong_is_refused_at_its_place(media, said):
    with pytest.raises(InvalidScenarioError) as caught:
        loads(f"{SCENARIO}media: {media}\n", file="s.yaml")
    assert said in str(caught.value)
    assert "s.yaml:13:" in str(caught.value)


@pytest.mark.parametrize(
    ("glob", "said"),
    [
        ("spine*", "media: no component matches 'spine*'"),
        ("node*.gpu*", "media: 'node*.gpu*' matches no component with a rate (node0.gpu0 is a "
         "gpu); name NICs, links, ports or memories"),
    ],
)  # fmt: skip
def test_components_that_no_medium_can_carry_are_refused(glob, said):
    with pytest.raises(ScenarioError) as caught:
        build_variant(loads(f"{SCENARIO}media: {{'{glob}': {QUEUED}}}\n", file="s.yaml"))
    assert said in str(caught.value)
    assert str(caught.value).startswith("s.yaml:13:")


def test_an_op_in_two_media_is_refused():
    with pytest.raises(GraphError, match="are in different media"):
        build_variant(loads(f"{SCENARIO}media: {{'node*': {QUEUED}}}\n")).run()


def test_a_collective_as_one_op_is_refused_where_messages_queue():
    all_reduce = '{op: "collective:all-reduce", bytes: 1 MB, from: [0, 1, 2, 3]}'
    text = SCENARIO.replace('{op: "send:write", bytes: 1 MB, from: [0, 1, 2], to: 3}', all_reduce)
    with pytest.raises(GraphError, match=r"expand it into sends .cluster.fabric.expand"):
        build_variant(loads(text + NETWORK)).run()
    written_out = (text + NETWORK).replace("  fabric: {", "  fabric: {expand: ring, ")
    assert build_variant(loads(written_out)).run().makespan > 0


def test_a_send_that_is_sprayed_is_refused_where_messages_go_one_way():
    text = SCENARIO.replace("routing: ecmp", "routing: spray, spines: 2")
    text = text.replace("nodes: 4", "nodes: 8")
    text = text.replace("from: [0, 1, 2], to: 3", "from: [0], to: 7")
    media = NETWORK.replace("}", f', "spine*": {QUEUED}}}')
    with pytest.raises(GraphError, match=r"sprayed over several routes.*; set routing: ecmp"):
        build_variant(loads(text + media)).run()
    one_way = text.replace("spray", "ecmp")
    assert build_variant(loads(one_way + media)).run().makespan == pytest.approx(5e-4)


def test_a_plug_in_without_kernels_is_refused_when_it_is_loaded(tmp_path):
    plugin = tmp_path / "half.py"
    plugin.write_text(
        "from foretrace.sim.engine_api.medium_api import Medium, medium\n"
        "@medium('half')\nclass Half(Medium):\n"
        "    def plain(self, rates): return None\n    def ports(self, rates): return None\n"
    )
    with pytest.raises(InvalidScenarioError, match="medium 'half': Half has no kernels; write"):
        loads(SCENARIO.replace(str(PLUGIN), str(plugin)))
    assert "half" not in MEDIA


def test_an_installed_package_brings_a_medium(monkeypatch, tmp_path):
    """As an entry point of the group that brings backends."""
    (tmp_path / "brought.py").write_text(PLUGIN.read_text().replace(QUEUED, "brought"))
    monkeypatch.syspath_prepend(str(tmp_path))
    point = installed_plugins.EntryPoint("x", "brought", "foretrace.backends")
    monkeypatch.setattr(installed_plugins, "entry_points", lambda group: [point])
    settings.known_backends.cache_clear()
    try:
        assert "brought" in settings.known_media()
    finally:
        MEDIA.pop("brought", None)
        settings.known_backends.cache_clear()


def test_media_are_explained():
    assert "Max-min fairness by default" in explain("media").what
