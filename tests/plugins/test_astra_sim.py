"""ASTRA-sim inputs are converted to scenarios that give ASTRA-sim's result."""

import json

import foretrace
import pytest
from foretrace.plugins.astra_sim import command as registered  # noqa: F401  adds its command
from foretrace.plugins.astra_sim.network_and_system import chakra_file_form, scenario_text
from foretrace.scenarios.cli.app import app
from foretrace.sim.errors import ScenarioError
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.traces.formats import chakra
from typer.testing import CliRunner

RING = "topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50.0 ]  # GB/s\nlatency: [ 500.0 ]\n"
SYSTEM = {
    "scheduling-policy": "FIFO",
    "endpoint-delay": 0,
    "preferred-dataset-splits": 1,
    "all-reduce-implementation": ["ring"],
    "local-mem-bw": 1600,
}


@pytest.fixture
def inputs(tmp_path):
    def put(network=RING, **system):
        (tmp_path / "net.yml").write_text(network)
        (tmp_path / "sys.json").write_text(json.dumps({**SYSTEM, **system}))
        return tmp_path / "net.yml", tmp_path / "sys.json", str(tmp_path / "steps")

    return put


def steps(folder):
    """Four times 1 ms of compute and an all-reduce of 64 MiB, on eight ranks."""
    build, before = Builder("steps"), [()] * 8
    for _ in range(4):
        work = [build.op(Kind.COMPUTE, rank=r, duration=1e-3, after=before[r]) for r in range(8)]
        members = [Member(r, 3, (work[r],)) for r in range(8)]
        said = "collective:all-reduce uint8[67108864]"
        before = [(build.collective(members, bytes=64 << 20, signature=said),)] * 8
    chakra.write(build.graph(), folder, prefix="steps")


def test_the_makespan_equals_that_of_astra_sim(inputs, tmp_path):
    """12.7787 ms is the result of ASTRA-sim (518bd51, both analytical backends) for this case."""
    network, system, workload = inputs()
    steps(tmp_path)
    command = ["--network", network, "--system", system, "--workload", workload]
    out = tmp_path / "ring.yaml"
    made = CliRunner().invoke(app, ["astra-sim", *map(str, command), "--out", str(out)])
    assert made.exit_code == 0, made.output
    ran = CliRunner().invoke(
        app, ["run", str(out), "--json", "--no-cache", "--out", str(tmp_path / "runs")]
    )
    assert ran.exit_code == 0, ran.output
    metrics = json.loads(ran.stdout)["points"]["base"]["metrics"]
    assert metrics["makespan"]["value"] == pytest.approx(12.7787e-3, rel=0.01)


def test_settings_that_are_not_converted_are_listed(inputs):
    text = scenario_text(*inputs(), name="x")
    assert 'Not carried over: scheduling-policy: "FIFO", preferred-dataset-splits: 1, local' in text
    assert "Ring of 8 ranks: modelled as a switch" in text


def test_two_dimensions_become_machines_with_several_gpus(inputs):
    two = "topology: [Switch, Switch]\nnpus_count: [4, 16]\nbandwidth: [400, 50]\nlatency: [10, 20]"
    text = scenario_text(*inputs(two, **{"endpoint-delay": 7}), name="x")
    assert "nodes: 16" in text
    assert "gpu: {streams: 1, count: 4}" in text
    assert "nic: {bandwidth: 50 GiB/s, latency: 20 ns, header: 0 B, count: 4}" in text
    assert "{from: gpu, to: gpu, bandwidth: 400 GiB/s, latency: 20 ns}" in text
    assert "step: 7 ns" in text


@pytest.mark.parametrize(
    ("network", "system", "message"),
    [
        (
            "topology: [Ring]\nnpus_count: [8]",
            {},
            r"net.yml: 'bandwidth'; give topology, npus_count",
        ),
        ("a: [", {}, r"net.yml: (.|\n)*give topology, npus_count"),
        (
            "topology: [Ring, Ring]\nnpus_count: [8]\nbandwidth: [1]\nlatency: [1]",
            {},
            r"net.yml: .*one value per dimension",
        ),
        (
            RING.replace("Ring", "Mesh"),
            {},
            r"unknown topology 'Mesh'; use one of: Ring, FullyConnected",
        ),
        (
            "topology: [Ring, Ring, Ring]\nnpus_count: [2, 2, 2]\nbandwidth: [1, 1, 1]\n"
            "latency: [1, 1, 1]",
            {},
            r"net.yml: has 3 dimensions; use one",
        ),
        (
            RING,
            {"all-reduce-implementation": ["magic"]},
            r"collective algorithm 'magic' is not supported",
        ),
        (RING, {"roofline-enabled": 1}, r"sys.json: roofline-enabled is 1; set it to 0"),
    ],
)
def test_bad_astra_sim_inputs_are_refused(network, system, message, inputs):
    with pytest.raises(ScenarioError, match=message):
        scenario_text(*inputs(network, **system), name="x")


def test_a_scenario_is_not_written_over(inputs, tmp_path):
    network, system, workload = inputs()
    (tmp_path / "there.yaml").write_text("mine")
    command = ["--network", network, "--system", system, "--workload", workload]
    made = CliRunner().invoke(
        app, ["astra-sim", *map(str, command), "--out", str(tmp_path / "there.yaml")]
    )
    assert str(made.exception).endswith(
        "already exists; give another file with --out, or remove it"
    )
    assert (tmp_path / "there.yaml").read_text() == "mine"


@pytest.mark.parametrize("value", ["", [1], None, -1, float("inf")])
def test_a_setting_that_is_no_number_is_refused(inputs, value):
    with pytest.raises(ScenarioError, match=r"sys\.json: endpoint-delay is .*; write a number"):
        scenario_text(*inputs(**{"endpoint-delay": value}), "ring")


@pytest.mark.parametrize(("old", "new"), [("8", ".inf"), ("8", "0"), ("50.0", ".nan")])
def test_an_invalid_dimension_is_refused(inputs, old, new):
    with pytest.raises(ScenarioError, match=r"net\.yml: .*; give topology, npus_count"):
        scenario_text(*inputs(RING.replace(old, new)), "ring")


NODES = """{"version": "0.0.4"}
{"id": "1", "name": "work", "type": "COMP_NODE", "durationMicros": "100"}
{"id": "2", "name": "sum", "type": "COMM_COLL_NODE", "dataDeps": ["1"], "attr": [
  {"name": "comm_type", "int64Val": "0"}, {"name": "comm_size", "int64Val": "1048576"}]}
"""


def test_json_chakra_files_are_accepted(inputs, tmp_path):
    network, system, workload = inputs(RING.replace("8", "2"))
    for rank in range(2):
        (tmp_path / f"steps.{rank}.json").write_text(NODES)
    command = ["--network", network, "--system", system, "--workload", workload]
    out = tmp_path / "two.yaml"
    made = CliRunner().invoke(app, ["astra-sim", *map(str, command), "--out", str(out)])
    assert made.exit_code == 0, made.output
    assert "trace: steps.*.json, format: chakra" in out.read_text()
    bytes_of_a_ring, once = 2**20, 500e-9
    scenario = foretrace.load(str(out))
    result = foretrace.run(scenario).results["base"]
    assert result.makespan == pytest.approx(100e-6 + bytes_of_a_ring / (50 * 2**30) + 2 * once)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ((), "there is no file steps.0.et or steps.0.json; give the part of the path"),
        (
            ("steps.0.et", "steps.1.et"),
            "2 files, but .* has 8 ranks .npus_count.; give one file per rank",
        ),
        (("steps.groups.json", "other.0.et"), "there is no file steps.0.et"),
    ],
)
def test_missing_chakra_files_are_named(inputs, tmp_path, files, told):
    network, _, workload = inputs()
    for name in files:
        (tmp_path / name).touch()
    with pytest.raises(ScenarioError, match=told):
        chakra_file_form(workload, network)
