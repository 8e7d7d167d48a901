"""Rows on the error of the whole run: each error with what it compares, or unknown."""

from foretrace.hil.sample import CLOCKS
from foretrace.reports.accuracy.clock_meanings import SECONDS, clock_meanings
from foretrace.reports.accuracy.whole_run_rows import component_share_rows, error_rows

WHOLE = {"error": -0.021, "spread": 0.004, "real": None, "coupled": None,
         "shares": [{"component": "nic", "swap_in": 1e-3, "leave_out": 1e-3, "shapley": 1e-3}],
         "interaction": 0.0}  # fmt: skip
DRIVEN = {"value": 2e-3, "error": -0.03, "sharing": -0.01}


def rows(**more):
    return {name: (value, note) for name, value, note in error_rows({**WHOLE, **more}, "s")}


def test_model_error_composition_error_and_spread_are_separate_rows():
    found = rows()
    assert found["model error"][0] == "-2.1 %"
    assert found["A/A"][0] == "0.4 %"
    assert found["composition error"] == ("unknown", "the real job was not measured (hil.real)")
    real = {"composition": 0.05, "all": 0.03, "spread": 0.02, "source": "a stopwatch"}
    found = rows(real=real)
    assert found["composition error"] == (
        "+5.0 %",
        "all devices against the job; its own starts differ by 2 %",
    )
    assert found["model against job"] == ("+3.0 %", "a stopwatch")


def test_a_coupled_run_shows_the_sharing_error_of_measured_sets():
    found = rows(coupled={**DRIVEN, "sets": ["fabric"]})
    assert found["model error, coupled"][0] == "-3.0 %"
    assert "2 ms" in found["model error, coupled"][1]
    assert found["sharing error"][0] == "-1.0 %"
    assert found["sharing error"][1].endswith("sets of concurrent ops (fabric)")
    found = rows(coupled={**DRIVEN, "sets": []})
    assert found["sharing error"][0] == "unknown"


def test_a_single_component_has_no_table_of_shares():
    assert component_share_rows(WHOLE, "s") == []
    two = {**WHOLE, "shares": WHOLE["shares"] * 2}
    assert [row["name"] for row in component_share_rows(two, "s")] == ["nic", "nic", "interaction"]


def test_every_clock_is_explained():
    assert set(CLOCKS) == set(SECONDS)
    told = dict(clock_meanings(["icount", "timetravel", "icount"]))
    assert "They do not tell how long a NIC" in told["icount"]
    assert "They do not tell what a processor" in told["timetravel"]
