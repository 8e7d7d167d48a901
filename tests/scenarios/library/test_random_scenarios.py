"""Scenarios by seed: what one of ``validate``, ``plan`` and ``run`` refuses, each of them does."""

import json
import random

import pytest
import random_scenarios

REFUSED = 2
RAN = (0, 5)  # an expectation may be missed
BY_DAY, NIGHTLY = 3, 300


@pytest.fixture
def verdicts(cli, script, tmp_path, monkeypatch):
    """Exit codes of the three commands, and what they said, of one scenario."""
    monkeypatch.chdir(tmp_path)
    random_scenarios.write_traces(tmp_path, script)

    def ask(tree):
        (tmp_path / "s.yaml").write_text(json.dumps(tree))
        said = [
            cli("validate", "s.yaml"),
            cli("plan", "s.yaml"),
            cli("run", "s.yaml", "--quiet", "--no-cache"),
        ]
        told = [f"{code}: {err[-300:]}" for code, _, err in said]
        codes = [code for code, _, _ in said]
        assert len({code == REFUSED for code in codes}) == 1, (told, tree)
        assert 1 not in codes, (told, tree)
        return codes

    return ask


def test_what_is_right_is_accepted_and_runs(verdicts):
    done = [verdicts(random_scenarios.scenario(seed))[-1] for seed in range(BY_DAY)]
    assert sum(code in RAN for code in done) >= BY_DAY * 5 // 6


def test_what_is_damaged_is_judged_alike(verdicts):
    codes = [verdicts(random_scenarios.damaged(seed))[-1] for seed in range(2 * BY_DAY)]
    assert codes.count(REFUSED) > BY_DAY // 2


MENDED = (
    5030,  # a line of transfers that begins nowhere
    5159,  # collectives to be written out over more ranks than there are GPUs
    5165,  # a warm-up that leaves no iteration to count
    5223,  # a million million machines
    5224,  # a collective of ranks that share one GPU
)


@pytest.mark.parametrize("seed", MENDED)
def test_what_was_judged_unlike_once_is_refused_by_all(verdicts, seed):
    assert verdicts(random_scenarios.damaged(seed))[-1] == REFUSED


@pytest.mark.parametrize("quick", [True, False])
def test_a_run_that_takes_no_time_is_told(verdicts, quick):
    tree = random_scenarios.damaged(1965)  # work of a host without bytes
    tree["run"] |= {"quick": quick}
    tree["what_if"] = [{"name": "v", "set": {"cluster.fabric.switch.latency": "3 us"}}]
    assert verdicts(tree) == [0, 0, 0]


@pytest.mark.nightly
def test_three_hundred_that_are_right_are_accepted_and_run(verdicts):
    first = random.Random().randrange(10**9)
    print("seeds from", first)
    seeds = range(first, first + NIGHTLY)
    done = [verdicts(random_scenarios.scenario(seed))[-1] for seed in seeds]
    assert sum(code in RAN for code in done) >= NIGHTLY * 5 // 6


@pytest.mark.nightly
def test_three_hundred_that_are_damaged_are_judged_alike(verdicts):
    first = random.Random().randrange(10**9)
    print("seeds from", first)
    for seed in range(first, first + NIGHTLY):
        verdicts(random_scenarios.damaged(seed))
