"""What a run folder keeps loads again to the same scenario, and says who decided what."""

import json
import pickle

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.reading.document import parse_yaml
from foretrace.scenarios.config.reading.resolution import resolved_yaml
from foretrace.scenarios.config.reading.tree import to_dict


def without_catalog(scenario):
    return {k: v for k, v in scenario.settings().items() if not k.startswith("catalog.")}


def test_a_resolved_scenario_loads_to_the_same(scenario, files):
    first = scenario()
    files()  # another folder, and no catalog but its own
    second = loads(resolved_yaml(first.resolved(), first.origins))
    assert second.resolved() == first.resolved()
    for before, after in zip(first.variants(), second.variants(), strict=True):
        assert after.digest() == before.digest()
        assert without_catalog(after) == without_catalog(before)
        assert after.resolved() == before.resolved()


def test_sources_survive_resolving(scenario):
    first = scenario()
    second = loads(json.dumps(first.resolved()))
    for path in ("cluster.node.gpu.peaks.bf16", "cluster.fabric.switch.latency"):
        assert first.origins[path].source == second.origins[path].source
    source = second.origins["cluster.node.gpu.peaks.bf16"].source
    assert source.facts() == {"kind": "fitted", "where": "run 2", "error": "3 %"}


def test_a_value_in_the_scenario_may_have_a_source_of_its_own(scenario, whole):
    said = "bandwidth: {value: 450 GB/s, source: {kind: measured, where: our lab}}"
    s = scenario(whole.replace("bandwidth: 450 GB/s", said))
    assert s.cluster.node.links[0].link.settings["bandwidth"] == 450e9
    assert s.origins["cluster.node.links.0.bandwidth"].source.kind == "measured"
    again = loads(json.dumps(s.resolved()))
    assert again.origins["cluster.node.links.0.bandwidth"].source.where == "our lab"


def test_a_resolved_scenario_has_absolute_files_defaults_and_only_the_parts_it_uses(scenario):
    told = scenario().resolved()
    assert told["workload"]["trace"].startswith("/")
    assert told["workload"]["missing_ranks"] == "refuse"
    assert told["run"]["engine"] == "core"
    assert "efficiency" not in told["backends"]["node*.gpu*"]  # the part may say it
    assert sorted(told["catalog"]["gpu"]) == ["test-gpu-80g"]
    assert "extends" not in told


def test_the_parts_of_variants_are_kept_too(scenario, whole):
    model = "cluster.node.gpu.model: test-gpu-40g"
    s = scenario(whole.replace("cluster.node.nic.bandwidth: 400 Gb/s", model))
    assert sorted(s.resolved()["catalog"]["gpu"]) == ["test-gpu-40g", "test-gpu-80g"]
    again = loads(json.dumps(s.resolved()))
    assert again.variants()[1].cluster.node.gpu.settings == {"bandwidth": 1e12}


def test_the_digest_changes_with_what_can_change_the_answer(scenario, whole):
    digest = scenario().digest()
    assert scenario(whole.replace("Is it worth it?", "Well?")).digest() == digest
    assert scenario(whole + "report: {title: Ours}").digest() == digest
    assert scenario(whole.replace("seed: 7", "seed: 8")).digest() != digest
    assert scenario(whole.replace("450 GB/s", "451 GB/s")).digest() != digest
    assert len({v.digest() for v in scenario().variants()}) == 4


def test_a_scenario_cannot_be_changed(scenario):
    s = scenario()
    with pytest.raises(AttributeError):
        s.variant = "other"
    with pytest.raises(ValueError, match="frozen"):
        s.cluster.nodes = 3
    s.resolved()["cluster"]["nodes"] = 99
    assert s.resolved()["cluster"]["nodes"] == 16


def test_a_scenario_travels_to_other_processes(scenario):
    s = scenario()
    assert pickle.loads(pickle.dumps(s)).digest() == s.digest()


def test_the_yaml_says_who_decided_each_value(scenario):
    s = scenario(set=["run.replicas=9"])
    lines = resolved_yaml(s.resolved(), s.origins).splitlines()
    assert "  nodes: 16  # scenario s.yaml:13:10" in lines
    assert "  replicas: 9 # --set --set:1:14" in lines
    assert "  engine: core # default" in lines
    assert to_dict(parse_yaml("\n".join(lines)))["run"]["replicas"] == 9


def test_one_variant_alone_resolves_to_itself(scenario):
    s = scenario()
    both = s.only("both")
    assert [v.variant for v in both.variants()] == ["base", "both"]
    again = loads(json.dumps(both.resolved()))
    assert [v.variant for v in again.variants()] == ["base", "both"]
    before, after = (without_catalog(v) for v in (s.variants()[3], again.variants()[1]))
    assert {k: v for k, v in before.items() if not k.startswith("what_if")} == {
        k: v for k, v in after.items() if not k.startswith("what_if")
    }
    assert both.digest() == again.digest() != s.digest()
