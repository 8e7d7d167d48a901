"""The table of full queues on a run's page, and its sentence in the answer."""

from foretrace.reports.blocks import Heading, Paragraph, Table
from foretrace.reports.run.policies.full_queues import MOST_ROWS, full_queues
from foretrace.reports.texts.study import StudyShown
from foretrace.reports.texts.turned_away import full_queue_sentences


def row(k, rule="drop", full=9, dropped=9):
    return {"component": f"nf{k}", "length": 4, "rule": rule, "full": full, "dropped": dropped}


def shown(*rows, more=False, **beside):
    full, dropped = (sum(r[key] for r in rows) for key in ("full", "dropped"))
    queues = {"components": rows, "full": full, "dropped": dropped, **beside}
    points = {"base": {"queues": queues, "facts": {"ops": 100}}}
    points |= {"other": {"facts": {"ops": 100}}} if more else {}
    return StudyShown({"points": points}, {}, {})


def test_the_table_says_what_became_of_each_op():
    rules = row(0), row(1, "elsewhere", 5, 2), row(2, "wait", 3, 0)
    _, table = full_queues(shown(*rules))
    assert [[*cells] for cells in table.rows] == [
        ["nf0", "4", "drop", "9", "9", "", ""],
        ["nf1", "4", "elsewhere", "5", "2", "3", ""],
        ["nf2", "4", "wait", "3", "0", "", "3"],
    ]


def test_many_queues_are_summed_and_variants_and_jobs_are_named():
    rows = [row(k) for k in range(MOST_ROWS + 3)]
    _, heading, table, jobs = full_queues(shown(*rows, more=True, by_job={"a": 1, "b": 26}))
    assert isinstance(heading, Heading)
    assert isinstance(table, Table)
    assert table.rows[-1][:5] == ["3 more", "", "", "27", "27"]
    assert jobs == Paragraph("Dropped ops by job: a 1, b 26.")


def test_a_run_without_full_queues_has_neither_table_nor_sentence():
    study = StudyShown({"points": {"base": {"facts": {"ops": 3}}}}, {}, {})
    assert list(full_queues(study)) == []
    assert full_queue_sentences(study.summary) == []


def test_the_sentence_names_the_variant_and_the_queue_that_dropped_most():
    study = shown(row(0), row(1, full=40, dropped=21))
    told = {"points": {"lossy": study.summary["points"]["base"]}}
    assert full_queue_sentences(told) == [
        "In lossy, 30 of 100 ops were dropped at full queues (30 %), most at nf1; ops that depend "
        "on them did not run."
    ]
