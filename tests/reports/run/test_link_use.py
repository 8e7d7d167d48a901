"""Table of the links that the longest collective used."""

from foretrace.reports.run.link_use import MOST_ROWS, link_table, link_use
from foretrace.reports.texts.study import StudyShown
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.studies.run.run import study


def rows(table):
    return {row[0]: row[1:] for row in table.rows}


def test_links_with_equal_use_in_all_variants_share_a_row():
    one = {"a": 0.5, "b": 0.5, "c": 0.5}
    table = link_table({"base": one, "other": {"a": 1.0, "b": 1.0, "c": 0.5}})
    assert rows(table) == {"a + 1 alike": ("50.0 %", "100.0 %"), "c": ("50.0 %", "50.0 %")}


def test_a_link_that_a_variant_does_not_use_is_a_dash():
    assert rows(link_table({"base": {"a": 0.5}, "other": {"b": 0.25}})) == {
        "a": ("50.0 %", "–"), "b": ("–", "25.0 %"),
    }  # fmt: skip


def test_only_the_busiest_of_many_links_are_listed():
    shares = {f"l{k}": k / 1000 for k in range(1, 101)}
    table = link_table({"base": shares})
    assert len(table.rows) == MOST_ROWS
    assert table.rows[0][:2] == ("l100", "10.0 %")
    assert table.rows[-1][0] == f"{100 - MOST_ROWS + 1} more rows of less busy links"


def test_the_page_shows_which_links_a_crowded_exchange_waits_for():
    made = study(load("crowded-experts", set=["run.quick=true"]))
    run = {"resolved": "", "command": "", "run": "0", "title": "", "timeline_cut": ""}
    *said, table = link_use(StudyShown(made.summary.to_dict(), made.results, run))
    assert [str(s.line).partition(";")[0] for s in said] == [
        "base: collective:all-to-all of 32 ranks takes 3.85 ms",
        "even: collective:all-to-all of 32 ranks takes 965 µs",
        "copied: collective:all-to-all of 32 ranks takes 1.24 ms",
    ]
    found = rows(table)
    assert found["leaf0.node0.nic0 + 1 alike"] == ("99.9 %", "99.4 %", "99.6 %")  # and its NIC
    assert found["node1.nic0.tx + 23 alike"] == ("25.8 %", "99.4 %", "79.7 %")  # of other machines
