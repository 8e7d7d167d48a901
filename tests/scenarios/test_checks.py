"""One ordered list of checks: ``validate``, ``plan`` and ``run`` say the same of a scenario."""

import json

import pytest
from foretrace.scenarios.cli.checks import ORDER, require_valid, validation_problems
from foretrace.scenarios.config.loader import load

GONE = "workload.trace=gone.json"


def test_the_checks_are_in_this_order():
    assert ORDER == ("schema", "references", "lint", "files", "dry run", "limits")


def test_a_check_is_made_only_when_those_before_it_found_no_error():
    unbuildable = "backends={node9.gpu0: {use: recorded}}"
    two = load("first", set=[GONE, unbuildable])
    assert {p.kind for p in validation_problems(two)} == {"missing-file"}
    one = load("first", set=[unbuildable])
    assert {p.kind for p in validation_problems(one, "dry run")} == {"machine"}
    assert list(validation_problems(one, "files")) == []


def test_what_passes_gives_its_warnings():
    slow = load("first", set=["cluster.node.nic={model: connectx-7, bandwidth: 1 Gb/s}"])
    assert "slow for a NIC" in require_valid(slow, "files")[0].message


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_every_command_says_the_same_of_a_file_that_is_not_there(cli, verb):
    (told,) = json.loads(cli("validate", "first", "--json", "--set", GONE)[1])["problems"]
    code, _, err = cli(verb, "first", "--set", GONE)
    assert code == 2
    assert told["message"] in err
