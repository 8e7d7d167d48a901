"""No key is ever ignored, wherever it stands."""

import json
import random
from copy import deepcopy

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.config.reading.document import parse_yaml
from foretrace.scenarios.config.reading.tree import to_dict

OWN = """
catalog:
  gpu:
    mine: {bandwidth: {value: 1 TB/s, source: {kind: assumed, where: here}}}
"""
LETTERS = "abcdefghijklmnopqrstuvwxyz_-"
SEEDS = range(1, 30)


def mappings(value, path=()):
    """Paths of all mappings below."""
    if isinstance(value, dict):
        yield path
        for key, below in value.items():
            yield from mappings(below, (*path, key))
    elif isinstance(value, list):
        for i, below in enumerate(value):
            yield from mappings(below, (*path, i))


def described(text):
    """A scenario as plain values, sources included."""
    found = to_dict(parse_yaml(text))
    own = {"value": "1 TB/s", "source": {"kind": "assumed", "where": "here"}}
    found["catalog"] = {"gpu": {"mine": {"bandwidth": own}}}
    found["report"] = {"title": "Ours", "sections": ["answer"]}
    wanted = [{"minimize": "iteration_time.p50"}]
    found["sweep"] = {"vary": {"cluster.nodes": [16, 32]}, "optimize": wanted}
    peer = {"agent": "", "device": ""}
    off = {"node0.nic0": {"time": "1 us", "error": "0 s"}}
    swap = {"component": "node1.nic0", "driver": "host", "peer": peer, "subtract": off}
    found["hil"] = {"swap": [swap], "real": {"iteration_time": "1 s"}}
    return found


def at(value, path):
    for part in path:
        value = value[part]
    return value


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.nightly) for k in SEEDS)])
def test_a_random_unknown_key_at_every_level_is_an_error(whole, catalog, seed):
    draw = random.Random(seed)
    right = described(whole)
    for path in sorted(mappings(right), key=str):
        tree = deepcopy(right)
        mapping = at(tree, path)
        key = "".join(draw.choices(LETTERS, k=draw.randint(1, 12)))
        if key not in mapping:
            mapping[key] = draw.choice([1, "text", {"a": 1}, [1], True])
            said = complaint(tree, catalog)
            assert key in (said or known_at(path, tree)), path


def complaint(tree, *catalogs):
    """What is wrong; "" for nothing."""
    try:
        loads(json.dumps(tree), file="s.json", catalogs=catalogs)
    except InvalidScenarioError as error:
        return str(error)
    return ""


def test_a_key_of_another_workload_is_told_with_the_type_that_has_it():
    """Who calibrates a recorded step by ``measured`` was only told what else there is."""
    tree = {"foretrace": 1, "name": "x", "workload": {"trace": "foretrace:gpt", "measured": {}}}
    assert "'measured'; it is a setting of 'type: training'\n" in complaint(tree)


def known_at(path, tree):
    """Keys that are right there and only absent, by the refusal of a key that is not."""
    at(tree, path)["no-such-key"] = 1
    said = complaint(tree).partition("'no-such-key'")[2].partition("\n")[0]
    del at(tree, path)["no-such-key"]
    return {word.strip("',;") for word in said.partition("known here:")[2].split()}


def test_the_scenario_that_the_test_breaks_is_right(whole, catalog):
    tree = described(whole)
    assert loads(json.dumps(tree), catalogs=[catalog]).report.title == "Ours"
    assert len(list(mappings(tree))) > 40
    assert len(list(mappings(to_dict(parse_yaml(OWN))))) == 4
