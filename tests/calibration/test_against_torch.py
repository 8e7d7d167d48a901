"""Descriptions beside what torch does of the same model here, op for op. Needs torch."""

import json
import subprocess
import sys
from collections import Counter

import pytest

PROGRAM = "foretrace.calibration.local.descriptions"

NORM, DATA, LAYOUT = (
    "the norm of all gradients is that of each one's norm, a number a parameter",
    "the batch is made here, and comes from a loader elsewhere",
    "torch lays the gradients of queries, keys and values out as one, which others leave apart",
)
COUNTER = "counts steps or batches for nobody: no result depends on it"
TEXT = {
    "randint": (1, DATA),
    "clone int64[256] | 0 flop 4096 B": (1, DATA),
    "arange": (1, "positions are counted anew; they come from a loader elsewhere"),
    "stack": (4 + 1, f"{LAYOUT}; {NORM}"),
    "clone fp32[256x3x4x64] | 0 flop 1572864 B": (4, LAYOUT),
    "_foreach_add": (1, COUNTER),
}
CAPTURED_ONLY = {
    "gpt": TEXT | {"linalg_vector_norm fp32[53] | 0 flop 212 B": (1, NORM)},
    "moe": TEXT | {"linalg_vector_norm fp32[49] | 0 flop 196 B": (1, NORM)},
    "resnet": {
        "randn": (1, DATA),
        "randint": (1, DATA),
        "add int64[] int64[] | 0 flop 24 B": (53, COUNTER),
        "stack": (1, NORM),
        "linalg_vector_norm fp32[161] | 0 flop 644 B": (1, NORM),
        "_foreach_add": (1, COUNTER),
    },
}
"""What torch does and no description has, op by op: how often, and why.  All else is equal."""


def judged(*what: str) -> list[dict]:
    """What the tool says, line by line."""
    pytest.importorskip("torch", reason="descriptions are compared with torch, which is an extra")
    command = [sys.executable, "-m", PROGRAM, *what]
    ended = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith(b"{")]


@pytest.fixture(scope="module")
def alone() -> list[dict]:
    return judged("ops")


@pytest.fixture(scope="module")
def two_ranks() -> list[dict]:
    return judged("ops", "--ranks", "2")


def require_equal(line: dict) -> None:
    """Kinds, operands, flop and bytes of all ops but those that are named above are the same."""
    known = {op: count for op, (count, _) in CAPTURED_ONLY[line["model"]].items()}
    assert line["described_only"] == {}
    assert line["captured_only"] == known
    assert line["described"] == line["both"] > 100
    assert line["flop"][0] == line["flop"][1] > 1e9


def test_described_ops_are_those_captured_one_by_one(alone):
    assert [line["model"] for line in alone] == ["gpt", "resnet", "moe"]
    for line in alone:
        require_equal(line)


def test_ops_of_two_ranks_are_those_captured_of_each(two_ranks):
    assert Counter(line["model"] for line in two_ranks) == dict.fromkeys(CAPTURED_ONLY, 2)
    for line in two_ranks:
        require_equal(line)


def test_two_ranks_exchange_what_is_described_in_that_order_and_in_those_buckets(two_ranks):
    for line in two_ranks:
        told = line["collectives"]
        assert told["described"] == told["captured"] != []
    (resnet, again) = (line["collectives"] for line in two_ranks if line["model"] == "resnet")
    kinds = [one.split()[0] for one in resnet["captured"]]
    assert kinds == ["broadcast"] * 2 + ["all-reduce"] * 4
    assert resnet == again


def test_peak_memory_is_within_a_tenth_of_what_torch_reports():
    off = {line["model"]: line["off"] for line in judged("memory")}
    assert set(off) == set(CAPTURED_ONLY)
    assert all(abs(one) <= 0.1 for told in off.values() for one in told.values()), off
