"""The first screen answers a reader's questions, for every kind of result."""

import copy
import re

import pytest
from foretrace.reports.comparison.comparison_page import comparison_page as compare_page
from foretrace.reports.run.run_page import run_page
from foretrace.reports.sweep.sweep_page import sweep_page
from foretrace.reports.texts.answer import leading_sentences
from foretrace.sim.record.aggregates import BOXES

RUN = {"resolved": "", "command": "foretrace run s.yaml", "run": "0" * 12, "title": "",
       "timeline_cut": ""}  # fmt: skip


def shown(html):
    """Plain text of the first section and of the page head."""
    first = html[html.index("<main>") : html.index("</section>")]
    return " ".join(re.sub(r"<[^>]*>", " ", first).split())


@pytest.fixture
def plain(small):
    return copy.deepcopy(small.summary.to_dict())


def drawn(small, plain):
    return run_page(plain, small.results, RUN)


def test_every_question_is_answered(small, plain):
    text = shown(drawn(small, plain))
    for asked, answer in {
        "what was asked": "Is &lt;b&gt;this&lt;/b&gt; &amp; that worth it?",
        "the answer": "quick makes an iteration",
        "by how much": "% shorter",
        "how sure": "90 % within",
        "how far to trust it": "How far to trust this",
        "what limits it": "what limits it The critical path is",
        "what to do next": "what to do next Look at",
        "a command": "foretrace run s.yaml --set",
    }.items():
        assert answer in text, asked


@pytest.mark.parametrize(
    ("value", "interval", "outcome"),
    [(-0.1, (-0.12, -0.08), "better"), (0.1, (0.08, 0.12), "worse"),
     (-0.02, (-0.05, 0.01), "cannot tell")],
)  # fmt: skip
def test_each_outcome_is_in_the_sentence_and_the_table(small, plain, value, interval, outcome):
    plain["points"]["quick"]["change"] |= {"value": value, "interval": interval}
    html = drawn(small, plain)
    assert f'<span class="tag {outcome.replace(" ", "-")}">{outcome}</span>' in html
    words = {"better": "10.0 % shorter", "worse": "10.0 % longer", "cannot tell": "cannot tell"}
    assert words[outcome] in shown(html)
    low, high = (f"{100 * b:+.1f} %" for b in interval)
    assert f"{low} to {high}" in shown(html)


def test_a_change_holds_the_errors_of_the_models(small, plain):
    told = plain["points"]["quick"]["change"]
    assert told["interval_of"] == ["model"]  # the median step is alike in all replicas
    assert told["interval"][0] <= told["value"] <= told["interval"][1]


def test_sources_of_op_times_are_shown_as_shares(small, plain):
    plain["points"]["base"]["sources"] = {"recorded: trace": 3.0, "model:fabric launch=0": 1.0}
    assert "op times 75 % recorded, 25 % model" in shown(drawn(small, plain))


def test_break_even_errors_are_shown_if_they_were_computed(small, plain):
    assert "break-even" not in shown(drawn(small, plain))
    plain["provenance"]["break_even"] = [
        {"component": "nic", "answer": True, "error": 0.09},
        {"component": "fabric", "answer": True, "error": None},
    ]
    text = shown(drawn(small, plain))
    assert "holds if fabric is half or twice as fast" in text
    assert "flips if nic ops take 9 % more than predicted" in text


def test_assumptions_are_sorted_by_effect_and_those_without_are_listed(small, plain):
    values = plain["provenance"]["values"]
    unsure = [v for v in values if v["kind"] != "measured"]
    for v in values:
        v["effect"] = 0.0 if v["kind"] != "measured" else None
    unsure[2]["effect"], unsure[3]["effect"] = 0.01, -0.2
    plain["provenance"]["break_even"] = []
    html = drawn(small, plain)
    rests = html[html.index('id="assumptions"') :]
    order = re.findall(r"</span></td><td><code>(.*?)</code>", rests)
    assert order[:2] == [unsure[3]["path"], unsure[2]["path"]]
    (idle,) = re.findall(r"<p>No effect: (.*?)\.</p>", rests, re.S)
    assert sorted(re.findall("<code>(.*?)</code>", idle)) == sorted(
        v["path"] for i, v in enumerate(unsure) if i not in (2, 3)
    )


def test_a_variant_that_changes_nothing_is_listed_as_of_no_effect(small, plain):
    plain["points"]["quick"]["metrics"] = copy.deepcopy(plain["points"]["base"]["metrics"])
    html = drawn(small, plain)
    assert "No effect: <code>cluster.node.nic.bandwidth</code>." in html
    assert "No effect" not in drawn(small, small.summary.to_dict())


def test_sentences_cover_all_variants_the_best_first(small, plain):
    """Earlier they stopped at the third variant."""
    quick = plain["points"]["quick"]
    for name, change in (("b", -0.1), ("c", 0.2), ("d", 0.0), ("e", -0.3), ("f", 0.4)):
        plain["points"][name] = copy.deepcopy(quick)
        plain["points"][name]["change"] = {"value": change, "interval": None}
    told = leading_sentences(plain, 4)
    assert [text.split()[0] for text in told] == ["As", "quick", "e", "Of"]
    assert told[-1] == (
        "Of the others, better: b (-10.0 %); worse: c (+20.0 %), f (+40.0 %); same: d (no change)."
    )


def test_the_boxes_add_up_to_the_headline(small, plain):
    """One page showed 417 ms in its headline and 349 ms in its bars."""
    for point in plain["points"].values():
        mean = sum(box["mean"] for box in point["activity"].values())
        assert mean == pytest.approx(point["metrics"]["iteration_time.p50"]["value"], rel=1e-9)
    assert "an iteration of the mean rank" in shown(drawn(small, plain))


def sweep():
    def one(nodes, rate, time, front=False):
        return {"set": {"cluster.nodes": nodes, "cluster.node.nic.bandwidth": rate},
                "values": {"iteration_time.p50": time}, "intervals": {}, "missed": [],
                "warned": [], "front": front}  # fmt: skip

    points = [one(n, r, t) for n, r, t in (
        (2, "1 Gb/s", 0.4), (4, "1 Gb/s", 0.3), (8, "1 Gb/s", 0.25),
        (2, "2 Gb/s", 0.4), (4, "2 Gb/s", 0.28), (8, "2 Gb/s", 0.2),
    )]  # fmt: skip
    points[-1]["front"] = True
    return {
        "name": "many", "question": "How many?", "expect": [], "no_effect": [],
        "method": {"name": "grid", "sampler": "grid", "seed": 1},
        "vary": {"cluster.nodes": [2, 4, 8], "cluster.node.nic.bandwidth": ["1 Gb/s", "2 Gb/s"]},
        "optimize": [{"minimize": "iteration_time.p50", "unit": "s"}],
        "counts": {"asked": 6, "points": 6, "failed": 0, "missed": 0, "front": 1},
        "base": {**one(2, "1 Gb/s", 0.4), "set": {}}, "points": points,
    }  # fmt: skip


def test_a_sweep_shows_effects_of_settings_and_commands_to_type():
    text = shown(sweep_page(sweep(), RUN | {"file": "s.yaml", "command": "foretrace sweep s.yaml"}))
    assert "is 200 ms, with nodes = 8, bandwidth = 2 Gb/s; as described it is 400 ms" in text
    assert (
        "Settings that change iteration time p50: nodes by up to 100 %, bandwidth by up to 25 %."
        in text
    )
    command = "foretrace run s.yaml --set cluster.nodes=8 --set"
    assert command in text
    assert "nodes = 8 is at the end of the tried values: try values beyond it." in text
    assert "bandwidth = 2 Gb/s is the end" not in text  # two values are no range
    assert "foretrace sweep s.yaml --set run.replicas=10" in text  # no interval is known


def test_a_sweep_of_many_settings_has_columns_only_for_those_that_differ():
    told = sweep()
    more = {f"workload.{name}": [1] for name in ("zero", "recompute", "micro_batch")}
    more["workload.parallel.sequence"] = [True]
    told["vary"] |= more
    for point in told["points"]:
        point["set"] |= {path: tried[0] for path, tried in more.items()}
    told["points"][0] |= {"error": {"message": "too large", "kind": "PlanError"}, "values": {}}
    html = sweep_page(told, RUN | {"file": "s.yaml", "command": "foretrace sweep s.yaml"})
    first, rest = html.split("</section>", 1)
    heads = re.findall("<th[^>]*>(.*?)</th>", first.split("<thead>")[1].split("</thead>")[0])
    assert heads == ["", "iteration time p50", "90 % within", "change"]
    assert "sequence = true" in first
    effects = rest.split("Effect of each setting")[1].split("</section>")[0]
    assert ">nodes<" in effects
    assert "parallel.zero" not in effects  # one value does nothing
    refused = rest.split("Refused plans")[1].split("</table>")[0]
    assert '<table class="stack">' in refused  # a phone cut its words
    assert re.findall("<th[^>]*>(.*?)</th>", refused)[-1] == "why"
    assert "too large" in refused


def row(name, time, changed=0.0, interval=None, **more):
    told = {
        "settings": {},
        "activity": dict.fromkeys(BOXES, time / len(BOXES)),
        "why": "",
        "limit": "",
        "see": "",
    }
    values = {"iteration_time.p50": time, "makespan": 1.0}
    changes = {"iteration_time.p50": changed, "makespan": 0.0}
    return {"name": name, "values": values, "changes": changes, "interval": interval,
            **told, **more}  # fmt: skip


def compared(*rows):
    units = {"iteration_time.p50": "s", "makespan": "s"}
    told = {"title": "b beside a", "command": "foretrace compare a b", "no_effect": ["x.y"]}
    told["answer"] = {"metric": "iteration_time.p50", "unit": "s", "better": "lower",
                      "period": "iteration"}  # fmt: skip
    return compare_page(rows, told | {"units": units})


def test_a_comparison_says_what_differs_and_why():
    settings = {"cluster.nodes": ("2", "4")}
    b = row("b", 0.5, -0.5, (-0.6, -0.4), settings=settings, why="waiting 500 ms -> 100 ms",
            limit="the critical path is fabric for 60 %", see="foretrace run b")  # fmt: skip
    html = compared(row("a", 1.0), b)
    text = shown(html)
    assert "b is 50.0 % quicker than a: an iteration takes 500 ms instead of 1 s." in text
    assert "-60.0 % to -40.0 %" in text
    assert "waiting 500 ms → 100 ms" in text
    assert "b is the quickest; see what limits it: foretrace run b" in text
    assert (
        '<code>cluster.nodes</code></td><td data-of="a">2</td><td data-of="this run">4</td>' in html
    )
    assert "1 other metric is the same" in html
    assert "No effect: <code>x.y</code>" in html


def test_each_of_a_few_runs_has_a_sentence():
    names = "bcdefg"
    changes = (0.3, -0.5, 0.1, 0.0, -0.2, 0.4)
    rows = [row(n, 1 + c, c) for n, c in zip(names, changes, strict=True)]
    text = shown(compared(row("a", 1.0), *rows))
    assert "c is 50.0 % quicker than a" in text
    assert "f is 20.0 % quicker than a" in text
    assert "e is as quick as a" in text
    assert "Of the others, worse: d (+10.0 %), b (+30.0 %), g (+40.0 %)." in text


def test_unpaired_runs_have_no_interval_but_advice_on_how_to_get_one():
    text = shown(compared(row("a", 1.0), row("b", 1.1, 0.1)))
    assert "b is 10.0 % slower than a" in text
    assert "These runs do not share random draws" in text


def test_of_many_runs_the_best_have_a_sentence_and_the_others_one():
    many = [
        row(f"r{i}", 1.0 - i / 10, -i / 10, (-i / 10 - 0.01, -i / 10 + 0.01)) for i in range(1, 7)
    ]
    text = shown(compared(row("a", 1.0), *many))
    assert "r6 is 60.0 % quicker than a" in text
    assert "Of the others, better: r3 (-30.0 %), r2 (-20.0 %), r1 (-10.0 %)." in text
