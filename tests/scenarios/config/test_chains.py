"""Chains of backends in a scenario: how they are written, laid over, and refused."""

import pytest
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.config.schema import json_schema

GPUS = "backends.node*.gpu*"
THREE = "{use: [{use: table, file: ops.csv}, roofline, {use: recorded, scale: 2}]}"
TEXT = """\
foretrace: 1
name: chained
question: q
workload: {{trace: foretrace:ddp-gpt, recorded_on: {{device: epyc-zen4-core}}}}
cluster:
  nodes: 2
  node: {{gpu: {{model: epyc-zen4-core, count: 1}}, host: epyc-zen4-vm, nic: loopback-tcp}}
  fabric: {{library: gloo}}
backends:
  node*.gpu*:
    {chain}
"""


def chain_of(scenario, glob="node*.gpu*"):
    return [link.to_dict() for link in scenario.backends[glob].links]


def refused(text):
    with pytest.raises(InvalidScenarioError) as error:
        loads(TEXT.format(chain=text), file="mine.yaml")
    return error.value.problems


@pytest.mark.parametrize("text", [THREE, THREE.removeprefix("{use: ").removesuffix("}")])
def test_a_list_is_a_chain_whose_links_have_settings_of_their_own(tmp_path, text):
    scenario = loads(TEXT.format(chain=text), file=str(tmp_path / "mine.yaml"))
    assert chain_of(scenario) == [
        {"use": "table", "file": str(tmp_path / "ops.csv")},
        {"use": "roofline"},
        {"use": "recorded", "scale": 2.0},
    ]


@pytest.mark.parametrize(
    ("text", "told", "path", "line"),
    [
        ("use: [roofline, {use: recorded, scal: 2}]",
         "unknown key 'scal'; did you mean 'scale'?", f"{GPUS}.use.1.scal", 11),
        ("use:\n    - roofline\n    - recordedd",
         "no backend named 'recordedd'; did you mean 'recorded'?", f"{GPUS}.use.1", 13),
        ("use: [families, recorded]", "'file' is missing", f"{GPUS}.use.0.file", 11),
        ("use: [recorded]\n    scale: 2", "node*.gpu* has no setting 'scale'", f"{GPUS}.scale", 12),
        ("use: [[recorded]]", "a chain cannot contain a chain; list its backends directly",
         f"{GPUS}.use.0", 11),
        ("use: chain", "'chain' cannot be named; list its backends, like use: [table, roofline, "
                       "recorded]", GPUS, 11),
        ("use: []", "is empty; write at least one entry", f"{GPUS}.use", 11),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_link_is_told_where_it_stands(text, told, path, line):
    problem, *others = refused(text)
    assert not others
    assert told in problem.message
    assert problem.spot.path.startswith(path)
    assert problem.spot.line == line


def test_settings_of_a_link_can_be_laid_over():
    scenario = load("first", set=[f"{GPUS}.use=[roofline, recorded]", f"{GPUS}.use.1.scale=3"])
    assert chain_of(scenario)[1] == {"use": "recorded", "scale": 3.0}


def test_a_variant_and_a_sweep_may_name_a_chain():
    what_if = f"what_if: [{{name: mixed, backends: {{node*.gpu*: {THREE}}}}}]"
    scenario = loads(TEXT.format(chain="{use: recorded}") + what_if, file="/there/mine.yaml")
    (base, mixed) = scenario.variants()
    assert base.backends["node*.gpu*"].links == ()
    assert chain_of(mixed)[0]["file"] == "/there/ops.csv"
    vary = f"sweep: {{vary: {{{GPUS}: [recorded, [roofline, recorded]]}}}}"
    assert loads(TEXT.format(chain="{use: recorded}") + vary).section("sweep").wanted == 2


def test_an_editor_completes_links():
    links = json_schema()["$defs"]["chain_backend"]["properties"]["use"]
    names = {ref for one in links["items"]["anyOf"] if (ref := one.get("$ref", ""))}
    assert "#/$defs/roofline_backend" in names


def test_the_name_of_a_backend_of_the_release_before_is_understood_with_a_warning(caplog):
    chain = "{use: [{use: op-database, folder: h100_sxm}, roofline]}"
    first, _ = chain_of(loads(TEXT.format(chain=chain)))
    assert first == {"use": "table", "folder": "h100_sxm"}
    assert "backend 'op-database' was renamed; write 'table'" in caplog.text
