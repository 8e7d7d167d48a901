"""Plug-ins that the documentation shows: each is loaded from a scenario and run."""

import json
from pathlib import Path

import pytest
from foretrace.models.network.collective.algorithms import ALGORITHMS, closed_form
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.collective.expand import expand
from foretrace.models.network.collective.steps import check_algorithm
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.switch import Switch, star
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.config.plugin_loading import plugin_registries, unload_plugin_file
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.studies.building.jobs import graph_of as build
from foretrace.scenarios.studies.building.price import price_per_second
from foretrace.scenarios.studies.building.system import build_backends, build_system
from foretrace.sim.errors import GraphError
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.place import place
from foretrace.sim.run.simulation import Simulation

HERE = Path(__file__).parents[3] / "docs" / "examples" / "plugins"
ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])
ROCE = 4096 / 4178  # what the headers of a NIC leave


@pytest.fixture(autouse=True, scope="module")
def alone():
    """What these plug-ins add is nothing that other tests see."""
    yield
    for file in HERE.glob("*.py"):
        unload_plugin_file(file)


def example(name):
    return load(HERE / f"{name}.yaml")


def took(scenario, engine="reference"):
    machine = build_system(scenario)
    bound = build_backends(scenario, machine)
    graph = place(build(scenario), machine)
    return Simulation(machine, bound, engine=engine).run(graph).makespan


def variants(scenario, engine="reference"):
    return {s.variant: took(s, engine) for s in scenario.variants()}


SKETCHES = {"paged_serving.py", "paged_serving_twin.py", "page_tiering.py", "spraying.py"}
SKETCHES |= {"stateful_nf.py", "gang_scheduler.py"}  # test_sketches.py counts their lines
ITEMS = {"packet_pipeline.py"}  # test_item_example.py does
LONGER = {"serving.py", "fleet.py", "store_and_forward.py"} | SKETCHES | ITEMS  # complete programs
PARTS = sorted(f for f in HERE.glob("*.py") if f.name not in LONGER)


@pytest.mark.parametrize("file", PARTS, ids=lambda file: file.name)
def test_no_example_is_over_eighty_lines(file):
    assert len(file.read_text().splitlines()) <= 80


@ENGINES
def test_a_kind_of_part_is_shared_bound_overridden_and_swept(engine):
    """2 GB from one drive of 5 GB/s, from two of them, from one of 2.5 GB/s."""
    found = variants(example("drive"), engine)
    assert found == {
        "base": pytest.approx(0.4),
        "two-drives": pytest.approx(0.2),
        "slow-drive": pytest.approx(0.8),
    }


def test_a_kind_of_part_is_priced_by_its_size():
    base, two, _ = example("drive").variants()
    assert price_per_second(base) * 3600 == pytest.approx(2 * 0.02)
    assert price_per_second(two) * 3600 == pytest.approx(4 * 0.02)


def test_a_kind_of_part_is_found_by_fact_and_by_role():
    made = build_system(example("drive").only("two-drives").variants()[1])
    assert made.select(kind="drive", node="node0") == ("node0.drive0", "node0.drive1")
    gpus = [made.part(g, "drive") for g in made.numbers]
    assert [made.components[d].name for d in gpus] == ["node0.drive0", "node0.drive1"]


def test_a_kind_of_part_has_catalog_entries(tmp_path):
    (tmp_path / "parts.yaml").write_text(
        "drive: {fast: {bandwidth: {value: 10 GB/s, source: {kind: assumed, where: nobody}}}}\n"
    )
    text = (HERE / "drive.yaml").read_text().replace("bandwidth: 5 GB/s", "model: fast")
    text = text.replace("drive.py", str(HERE / "drive.py"))
    assert took(loads(text, catalogs=[str(tmp_path)])) == pytest.approx(0.2)
    short = text.replace("{model: fast, size: 2 TB}", "fast").replace(", per: 1 TB", "")
    assert took(loads(short, catalogs=[str(tmp_path)])) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("5 GB/s", "5 s", "'5 s' is not a rate of data"),
        ("size: 2 TB", "sise: 2 TB", "unknown key 'sise'; did you mean 'size'?"),
        ("what: drive", "what: drives", "no kind of component 'drives'; did you mean 'drive'?"),
    ],
)
def test_a_kind_of_part_is_checked_as_ours_are(old, new, message):
    text = (HERE / "drive.yaml").read_text().replace("drive.py", str(HERE / "drive.py"))
    assert text.count(old) == 1
    with pytest.raises(InvalidScenarioError) as caught:
        loads(text.replace(old, new))
    assert message in str(caught.value)


@ENGINES
def test_a_topology_spreads_data_over_its_routes(engine):
    """100 MB over one port of 5 GB/s, and over two; 2 us of NICs."""
    found = variants(example("two_planes"), engine)
    assert found == {
        "base": pytest.approx(0.02 + 2e-6, rel=1e-6),
        "two": pytest.approx(0.01 + 2e-6, rel=1e-6),
    }


def test_data_may_be_pinned_to_one_of_the_routes():
    _, two = example("two_planes").variants()
    made = build_system(two)
    a, b = made.numbers
    names = [[made.components[c].name for c in r.components] for r in made.routes(a, b)]
    assert names == [["node0.nic0.tx", f"plane{p}.node1.nic0", "node1.nic0.rx"] for p in range(2)]
    assert [r.weight for r in made.routes(a, b)] == [0.5, 0.5]
    pinned = made.with_pinned_routes({made.gpus: 1})
    graph = place(build(two), pinned)
    run = Simulation(pinned, build_backends(two, pinned), engine="core").run(graph)
    assert run.makespan == pytest.approx(0.02 + 2e-6, rel=1e-6)
    with pytest.raises(
        GraphError, match=r"route 2 from node0\.gpu0 .* does not exist; choose 0 to 1"
    ):
        made.with_pinned_routes({made.gpus: 2})


def test_a_topology_says_what_its_switches_cost_and_what_it_cannot_join():
    base, two = example("two_planes").variants()
    assert [round(price_per_second(s) * 3600) for s in (base, two)] == [1, 2]
    text = (HERE / "two_planes.yaml").read_text()
    text = text.replace("two_planes.py", str(HERE / "two_planes.py"))
    with pytest.raises(GraphError, match="2 NICs, but a switch has 1 ports; use a larger"):
        build_system(loads(text.replace("ports: 8", "ports: 1")))
    with pytest.raises(InvalidScenarioError, match=r"unknown key 'plains'; did you mean 'planes'"):
        loads(text.replace("planes: 1", "plains: 1"))


@ENGINES
def test_an_algorithm_takes_its_closed_form(engine):
    """log2(n) (α + S / B) against 2 (n - 1) (α + S / (n B)): Thakur 2005."""
    found = variants(example("recursive_doubling"), engine)
    rate = 10e9 * ROCE
    assert found["base"] == pytest.approx(6 * (2e-6 + 1e3 / (4 * rate)), rel=1e-6)
    assert found["doubling"] == pytest.approx(2 * (2e-6 + 1e3 / rate), rel=1e-6)


@pytest.mark.parametrize("n", [2, 4, 8])
def test_closed_form_activity_and_sends_of_an_algorithm_agree(n):
    example("recursive_doubling")
    one = ALGORITHMS["all-reduce"]["recursive-doubling"]
    check_algorithm(one)
    build_ = Builder("one")
    build_.collective(
        [Member(r, 9) for r in range(n)], bytes=1e6, signature="collective:all-reduce"
    )
    machine = star(
        n, Link(bandwidth=1e9, latency=1e-6), Switch(bandwidth=1e9, latency=0.0, ports=n)
    )
    fabric = {"*": Fabric(algorithms="recursive-doubling")}
    want = closed_form(one, n, 1e6, 1e-6, 1e9)
    whole = Simulation(machine, fabric).run(build_.graph()).makespan
    sends = Simulation(machine, fabric).run(expand(build_.graph(), "recursive-doubling")).makespan
    assert (whole, sends) == (pytest.approx(want), pytest.approx(want))


@ENGINES
@pytest.mark.parametrize("algorithm", ["ring", "recursive-doubling"])
def test_a_scenario_writes_collectives_out_as_sends(engine, algorithm):
    """At once on an idle fabric: as long as the one activity, and many ops in place of one."""
    name = HERE / "recursive_doubling.yaml"
    whole = load(name, set=[f"cluster.fabric.library.algorithms={algorithm}"])
    sends = load(name, set=[f"cluster.fabric.expand={algorithm}"])
    assert took(sends, engine) == pytest.approx(took(whole, engine), abs=1e-10)
    assert len(build(sends)) == {"ring": 6 * 4 + 1, "recursive-doubling": 2 * 4 + 1}[algorithm]


def test_a_collective_that_cannot_be_written_out_is_named():
    wrong = load(HERE / "recursive_doubling.yaml", set=["cluster.fabric.expand=pairwise"])
    with pytest.raises(GraphError, match=r"all-reduce of 4 members\): none of \['pairwise'\]"):
        build(wrong)


WRONG = {
    "part": (
        "from foretrace.models.parts import NodePart, part\n@part('odd')\nclass Odd(NodePart):\n"
        "    pass\n",
        "part 'odd': Odd has no components(); write 'def components(self, name)'",
    ),
    "taken": (
        "from foretrace.models.parts import NodePart, part\n@part('nic')\nclass Odd(NodePart):\n"
        "    def components(self, name):\n        return ()\n",
        "part 'nic': a built-in kind of part has this name; choose another name",
    ),
    "topology": (
        "from foretrace.models.network.topology.wiring import Topology, topology\n"
        "@topology('odd')\n"
        "class Odd(Topology):\n    def components(self, adapters, switch):\n        return ()\n",
        "topology 'odd': Odd has no routes(); write 'def routes(self, a, b)'",
    ),
    "algorithm": (
        "from foretrace.models.network.collective.steps import algorithm, shift\n"
        "@algorithm('all-reduce', 'odd')\ndef odd(n):\n    yield shift(n, 1)\n",
        "algorithm of all-reduce 'odd': all-reduce odd, 3 members: member 0 never",
    ),
    "ring": (
        "from foretrace.models.network.collective.steps import algorithm, shift\n"
        "@algorithm('all-reduce', 'ring')\ndef odd(n):\n    yield shift(n, 1)\n",
        "two algorithms of all-reduce are named 'ring'",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_plug_in_that_could_not_be_used_is_refused_where_it_is_named(name, tmp_path):
    text, message = WRONG[name]
    (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "s.yaml").write_text(
        (HERE / "two_planes.yaml").read_text().replace("two_planes.py", f"{name}.py")
    )
    before = {what: set(table) for what, table in plugin_registries().items()}
    with pytest.raises(InvalidScenarioError) as caught:
        load(tmp_path / "s.yaml")
    assert {what: set(table) for what, table in plugin_registries().items()} == before
    assert f"plug-in '{name}.py'" in str(caught.value)
    assert message in str(caught.value)
    assert "s.yaml:4:" in str(caught.value)


def test_the_schema_has_what_a_plug_in_adds(cli):
    plug_in = ("--plugin", str(HERE / "drive.py"), "--plugin", str(HERE / "two_planes.py"))
    code, out, _ = cli("schema", *plug_in)
    schema = json.loads(out)["$defs"]
    assert code == 0
    assert "drive" in schema["NodeSection"]["properties"]
    assert "planes_topology" in schema


@pytest.mark.parametrize("keep", ["ranks", "none"])
def test_a_process_that_keeps_no_rows_is_repeated_for_them(cli, tmp_path, keep):
    found, few = {}, ("--set", "workload.requests=40", "--set", "what_if=[]")
    for asked in (keep, "ops"):
        words = ("--keep", asked, "--json", "--out", tmp_path, *few)
        code, out, err = cli("run", HERE.parent / "serving.yaml", *words)
        assert code in (0, 5), err
        found[asked] = json.loads(out)
    assert "unexplained" not in found[keep]
    blamed = [told["points"]["base"]["blame"] for told in found.values()]
    assert blamed[0] == blamed[1]


def test_a_setting_that_hides_a_method_of_a_workload_is_refused(cli, tmp_path):
    (tmp_path / "hidden.py").write_text(
        "import foretrace as ft\n@ft.workload('hidden')\nclass Hidden(ft.Workload):\n"
        "    def __init__(self, *, size: int = 3):\n        self.size = size\n"
        "    def start(self, job):\n        return ft.Builder('nothing').graph()\n"
    )
    (tmp_path / "s.yaml").write_text(
        "foretrace: 1\nname: s\nplugins: [hidden.py]\nworkload: {type: hidden}\n"
        "cluster: {nodes: 1, node: {gpu: {streams: 1}}}\n"
    )
    code, _, err = cli("run", tmp_path / "s.yaml")
    unload_plugin_file(tmp_path / "hidden.py")
    assert code == 2
    assert "Hidden sets self.size, which hides its method size(); store the value under" in err
