"""The likeliest mistakes in a scenario, each with all that is said of it (``mistakes.txt``)."""

import ast
import json
from pathlib import Path
from typing import Literal

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.problems import AT_MOST, InvalidScenarioError
from foretrace.scenarios.config.schema import SECTIONS, Section, register, scenario_model

TOLD = Path(__file__).with_name("mistakes.txt").read_text().strip().split("\n\n")[1:]


def read(block: str) -> tuple[str, str, str]:
    """The text to replace, by what, and what must be said."""
    edit, _, said = block.partition("\n")
    old, new = map(ast.literal_eval, edit.removeprefix("@ ").split(" -> "))
    return old, new, said


def test_there_are_at_least_sixty():
    assert len({block.partition("\n")[0] for block in TOLD}) >= 60


@pytest.mark.parametrize("block", TOLD, ids=lambda block: read(block)[1].strip() or "nothing")
def test_a_mistake_is_named_with_place_value_and_cure(
    whole, catalog, cli, tmp_path, monkeypatch, block
):
    """Word for word, with exit code 2, and nothing is written."""
    old, new, said = read(block)
    assert whole.count(old) == 1
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(whole.replace(old, new))
    assert cli("run", "s.yaml", "--catalog", catalog) == (2, "", f"{said}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["s.yaml"]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(whole, catalog):
    text = whole
    for old, new in (("16\n", "0\n"), ("fat-tree", "fattree"), ("<= 37 s", "<= 37 GB")):
        text = text.replace(old, new, 1)
    with pytest.raises(InvalidScenarioError) as caught:
        loads(text, file="s.yaml", catalogs=[catalog])
    places = [str(p.spot) for p in caught.value.problems]
    assert places == ["s.yaml:13:10", "s.yaml:21:22", "s.yaml:46:11"]


def test_at_most_twenty_are_shown_and_the_rest_is_counted(whole, catalog):
    extra = "".join(f"key{i}: 1\n" for i in range(25))
    with pytest.raises(InvalidScenarioError) as caught:
        loads(whole + extra, file="s.yaml", catalogs=[catalog])
    lines = str(caught.value).splitlines()
    assert sum(line.startswith("error ") for line in lines) == AT_MOST == 20
    assert lines[-1] == "and 5 more; fix these first"
    assert len(caught.value.facts()) == 20


def test_a_problem_is_the_same_for_machines(edited, whole, catalog):
    with pytest.raises(InvalidScenarioError) as caught:
        loads(whole.replace("450 GB/s", "450 GB"), file="s.yaml", catalogs=[catalog])
    assert json.loads(json.dumps(caught.value.facts())) == [
        {
            "file": "s.yaml",
            "line": 19,
            "column": 57,
            "path": "cluster.node.links.0.bandwidth",
            "kind": "value",
            "message": "'450 GB' is not a rate of data; write it like '400 Gb/s'",
            "severity": "error",
        }
    ]


def test_a_long_line_is_cut_around_what_matters(edited):
    junk = "x" * 300
    said = edited("run: {seed: 7", f"run: {{workers: '{junk}', sed: 7").splitlines()
    excerpt, carets = said[-2:]
    assert len(excerpt) < 120
    assert excerpt[carets.index("^") :].startswith("sed: 7")


def test_a_key_that_is_mistyped_is_not_missing_as_well(edited):
    assert "missing" not in edited("{use: roofline, bandwidth", "{use: roofline, bandwith")


def test_a_list_is_not_empty_where_its_only_entry_is_wrong(edited):
    said = edited(
        "  trace: traces/rank*.json.gz\n  format: kineto\n",
        "  type: transfers\n  ops: [{op: copy:h2d, bytes: 1}]\n",
    )
    assert "'1' has no unit; write for example '1 MiB'" in said
    assert "is empty" not in said


def test_a_section_that_somebody_registers_is_checked_like_any_other(edited, scenario, whole):
    class Scheme(Section):
        method: Literal["grid", "random", "sobol", "tpe", "nsga2"] = "grid"

    assert edited("run: {seed", "scheme: {}\nrun: {seed").startswith("error unknown key 'scheme'")
    register("scheme", Scheme)
    try:
        assert scenario(whole + "scheme: {method: random}").section("scheme").method == "random"
        assert "unknown key 'methd'" in edited("run: {seed", "scheme: {methd: 1}\nrun: {seed")
        assert edited("run: {seed", "scheme: {method: nsga}\nrun: {seed").startswith(
            "error 'nsga' is not one of: grid, random, sobol, tpe, nsga2; did you mean 'nsga2'?"
        )
    finally:
        del SECTIONS["scheme"]
        scenario_model.cache_clear()
    assert "unknown key 'scheme'" in edited("run: {seed", "scheme: {}\nrun: {seed")
