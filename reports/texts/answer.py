"""Answer sentences of a run: the verdicts, how certain they are, what limits the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..numbers import format_change, format_half_width, format_quantity, format_share, three_digits
from .ablation_rows import ablation_sentences
from .chain_shares import chain_sentences
from .changed_ops import changed_ops_sentences
from .distributions import distribution_sentences
from .error_sources import error_source_sentences
from .grids import grid_sentences
from .headline import (
    Answer,
    better_sign,
    change_or_none_sentence,
    change_sentence,
    metric_subject,
    metric_value,
    value_sentence,
)
from .recording import recording_sentences
from .robustness import robustness_sentences
from .turned_away import full_queue_sentences
from .unexplained import is_unexplained, unexplained_sentences
from .waiting import last_arriver_sentence
from .work_ratio import work_ratio

BASE = "base"  # the scenario as described
SMALL = 0.005  # a change below this is called none
HIGH_MFU = 0.65  # no published job of a large model reaches it
Point = Mapping[str, Any]

TOKENS = "cost_per_million_tokens"
WORKLOADS = {
    "trace": "the trace",
    "training": "the description of the model",
    "transfers": "the list of transfers",
}
BLIND = "blind"  # first word of the calibration state without any measurement
REPLAY = "replay"  # first word of the calibration state of a recording that is only replayed
QUICK = (
    "A quick run: the effect of faster parts and of wrong values was not tested; run without "
    "--quick for that."
)
DRIVEN = "driven by"  # first words of the calibration state of a run with real devices


def answer_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Answer sentences of a run, most important first."""
    return [
        *recording_sentences(next(iter(summary["points"].values()))["facts"]),
        *lead_sentences(summary),
        *calibration_sentences(summary),
        *ablation_sentences(summary),
        *changed_ops_sentences(summary),
        *limit_sentences(summary),
        *(
            [late]
            if (late := last_arriver_sentence(next(iter(summary["points"].values()))))
            else []
        ),
        *full_queue_sentences(summary),
        *expectation_sentences(summary),
        *caveat_sentences(summary),
        *robustness_sentences(summary),
        trust_sentence(summary),
    ]


def lead_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Leading sentences: the value of the base scenario, and the change that each variant makes."""
    base, *variants = summary["points"].items()
    answer: Answer = summary["answer"]
    others = (_variant_sentence(name, point, base[1], answer) for name, point in variants)
    return [_base_sentence(base[1], answer), *others]


def leading_sentences(summary: Mapping[str, Any], max_sentences: int) -> list[str]:
    """At most ``max_sentences`` leading sentences: base, best variants, and one on the others.

    The best variants are those with the best deciding metric.
    """
    every = lead_sentences(summary)
    if len(every) <= max_sentences:
        return every
    base, *variants = summary["points"].items()
    answer: Answer = summary["answer"]
    sign = better_sign(answer)
    order = sorted(range(len(variants)), key=lambda i: sign * variants[i][1]["change"]["value"])
    first, rest = sorted(order[: max_sentences - 2]), sorted(order[max_sentences - 2 :])
    return [every[0], *(every[1 + i] for i in first),
            _others_sentence([variants[i] for i in rest], base[1], answer)]  # fmt: skip


def _others_sentence(variants: list[tuple[str, Point]], base: Point, answer: Answer) -> str:
    """Sentence with the verdicts on many variants."""
    by_verdict: dict[str, list[str]] = {}
    for name, point in variants:
        work = work_ratio(point, base, answer)
        verdict = variant_verdict(point, answer) if work == 1.0 else f"{three_digits(work)}x work"
        change = format_change(point["change"]["value"])
        by_verdict.setdefault(verdict, []).append(f"{name} ({change})")
    parts = (f"{verdict}: {', '.join(names)}" for verdict, names in by_verdict.items())
    return f"Of the others, {'; '.join(parts)}."


def calibration_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Sentence on the calibration by a measured step; an empty list without one."""
    found = next(iter(summary["points"].values())).get("calibration")
    if found is None:
        return []
    answer: Answer = summary["answer"]
    measured = format_quantity(found["measured"], "s")
    return [
        f"Calibrated on a measured step ({measured}, {found['on']}): ops on GPUs take "
        f"{three_digits(found['factor'])} times as long as predicted; without calibration, "
        f"{value_sentence(answer, found['blind'])}."
    ]


def limit_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Sentence on what limits the base scenario; an empty list if that is unknown, or no op ran."""
    base = next(iter(summary["points"].values()))
    unknown = is_unexplained(summary, "blame") or not base["facts"]["ranks"]
    return [] if unknown and not base["blame"] else [limit_sentence(summary)]


def limit_sentence(summary: Mapping[str, Any]) -> str:
    """Sentence on what limits the base scenario."""
    base = next(iter(summary["points"].values()))
    driven = summary["provenance"]["calibration"].startswith(DRIVEN) or is_quick(summary)
    untested = is_unexplained(summary, "the effect of faster parts")
    return _limit_sentence(base, driven, summary["answer"], untested)


def is_quick(summary: Mapping[str, Any]) -> bool:
    """True if the run was quick: the extra runs that explain the answer were left out."""
    return bool(summary["provenance"].get("quick"))


def caveat_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Sentences on unfinished parts, unreliable intervals, and the sources of op times."""
    checked, left = summary["provenance"]["jitter"], summary.get("unfinished", ())
    unsure = (
        [f"The interval is {jitter_sentence(checked)}."] if checked["state"] == "unresolved" else []
    )
    if checked["state"] == "unknown" and summary["provenance"].get("replicas", 1) > 1:
        unsure = [f"Jitter is {jitter_sentence(checked)}."]
    late = [f"Not finished in time: {', '.join(left)}."] if left else []
    base = next(iter(summary["points"].values()))
    quick = [QUICK] if is_quick(summary) else []
    if _is_too_quick(base, summary["provenance"]):
        unsure.append(
            "Without replicas no rank waits for one that happens to be slow, so the time on "
            f"{base['facts']['ranks']:,} ranks is too short (--replicas {checked['fewest']})."
        )
    unsure += [*profiled_sentences(base, summary["answer"]), *_high_mfu_sentences(base)]
    unsure += [*distribution_sentences(base), *grid_sentences(base.get("grids", {}))]
    shared = list(
        dict.fromkeys(t for p in summary["points"].values() for t in tensor_parallel_sentences(p))
    )
    wide = error_source_sentences(base)
    left_out = unexplained_sentences(summary)
    links = chain_sentences(base.get("chains", {}))
    return [*late, *left_out, *quick, *unsure, *shared, *wide, *links]


def tensor_parallel_sentences(point: Point) -> list[str]:
    """Sentence on how a recorded step was split over tensor-parallel ranks; else empty list.

    >>> facts = {"tensor_parallel": 2, "linear_pairs": 8, "reshaped_ops": 1200, "whole_layers": ""}
    >>> tensor_parallel_sentences({"facts": facts})[0].partition(":")[0]
    '8 pairs of linear layers per step are split over 2 tensor-parallel ranks'
    """
    facts = point["facts"]
    if "tensor_parallel" not in facts:
        return []
    layers = f", and linear layers {facts['whole_layers']}" if facts["whole_layers"] else ""
    return [
        f"{facts['linear_pairs']} pairs of linear layers per step are split over "
        f"{facts['tensor_parallel']} tensor-parallel ranks: {facts['reshaped_ops']:,} recorded ops "
        "have new shapes, whose times were not recorded. Every rank still runs all embeddings, "
        f"norms and the loss{layers}."
    ]


def _high_mfu_sentences(base: Point) -> list[str]:
    """Warning if the MFU is higher than large jobs reach; an empty list if it is not.

    >>> _high_mfu_sentences({"metrics": {"mfu.p50": {"value": 0.7}}})
    ['MFU of 70 % is above the 65 % that large jobs reach: check the op times behind it.']
    """
    found = base["metrics"].get("mfu.p50")
    if found is None or found["value"] <= HIGH_MFU:
        return []
    mfu, most = format_share(found["value"], 0), format_share(HIGH_MFU, 0)
    return [
        f"MFU of {mfu} is above the {most} that large jobs reach: check the op times behind it."
    ]


def profiled_sentences(base: Point, answer: Answer) -> list[str]:
    """Sentence on how the answer differs from a profiler's tables; else an empty list.

    They differ if GPU work was in flight when the first period began.
    """
    profile = base.get("as_profiled")
    if profile is None or not answer.get("period"):
        return []
    took = format_quantity(metric_value(base, answer)["value"], "s")
    marks, exposed = (format_quantity(profile[k], "s") for k in ("step", "exposed_communication"))
    return [
        f"{profile['in_flight']:,} GPU ops were in flight when the first {answer['period']} began: "
        f"the GPU takes {took} per {answer['period']}, but its host marks one every {marks}. A "
        "profiler table that counts the complete window, and copies as compute, shows "
        f"{exposed} of exposed communication."
    ]


def _is_too_quick(base: Point, provenance: Mapping[str, Any]) -> bool:
    """True if the time is too short because no replica drew the variation of recorded times.

    Without replicas, the recorded times are equal on all ranks. In reality they vary, and ranks
    wait for each other.
    """
    return (
        provenance["jitter"]["state"] == "not drawn"
        and not provenance["calibration"].startswith(REPLAY)
        and base["facts"]["ranks"] > 1
        and any(t > 0 and text.startswith("recorded") for text, t in base["sources"].items())
    )


def _base_sentence(point: Point, answer: Answer) -> str:
    value = metric_value(point, answer)
    sure = format_half_width(value["value"], value["interval"])
    if sure and "jitter" not in value.get("interval_of", ["jitter"]):
        sure += ", jitter left out"
    return (
        f"As described, {value_sentence(answer, value['value'])}"
        f"{f' ({sure})' if sure else ''}{_ranks_sentence(point)}{_idle_sentence(point)}"
        f"{_cost_sentence(point, answer)}."
    )


def _ranks_sentence(point: Point) -> str:
    """Text on the number of ranks; "" without any, as for a stream of items."""
    ranks = point["facts"]["ranks"]
    return f" on {ranks} rank{'s' * (ranks != 1)}" if ranks else ""


def _idle_sentence(point: Point) -> str:
    """Text on GPUs without a rank, which still cost money; "" if there are none."""
    gpus, ranks = point["facts"].get("gpus", 0), point["facts"]["ranks"]
    return f"; {gpus - ranks} of {gpus} GPUs stand idle" if ranks < gpus else ""


def has_token_price(point: Point, answer: Answer) -> bool:
    """True if the cost per token is known and is not itself the deciding metric."""
    return TOKENS in point["metrics"] and answer["metric"] != TOKENS


def _cost_sentence(point: Point, answer: Answer) -> str:
    """Text with the cost of the work; "" without prices."""
    if not has_token_price(point, answer):
        return ""
    value = point["metrics"][TOKENS]
    sure = format_half_width(value["value"], value["interval"])
    cost = format_quantity(value["value"], "USD")
    return f"; a million tokens cost {cost}{f' ({sure})' if sure else ''}"


def token_price_text(metrics: Mapping[str, Any]) -> str:
    """Cost of a million tokens in USD, as text; "" without prices or tokens.

    >>> token_price_text({TOKENS: {"value": 0.0405}}), token_price_text({})
    ('0.0405', '')
    """
    return (
        format_quantity(metrics[TOKENS]["value"], "USD").removesuffix(" USD")
        if TOKENS in metrics
        else ""
    )


def variant_verdict(point: Point, answer: Answer) -> str:
    """Verdict on a variant: ``better``, ``worse``, ``same`` or ``cannot tell``.

    >>> variant_verdict({"change": {"value": -0.1, "interval": None}}, {"better": "lower"})
    'better'
    >>> variant_verdict({"change": {"value": -0.1, "interval": None}}, {"better": "higher"})
    'worse'
    >>> change = {"value": -0.01, "interval": (-0.03, 0.01)}
    >>> variant_verdict({"change": change}, {"better": "lower"})
    'cannot tell'
    """
    change_ = point["change"]
    if change_["interval"]:
        low, high = change_["interval"]
        if low < 0 < high and abs(change_["value"]) >= SMALL:
            return "cannot tell"
    if abs(change_["value"]) < SMALL:
        return "same"
    return "better" if better_sign(answer) * change_["value"] < 0 else "worse"


def _variant_sentence(name: str, point: Point, base: Point, answer: Answer) -> str:
    value = metric_value(point, answer)["value"]
    ratio = point["change"]["value"]
    work = work_ratio(point, base, answer)
    if work != 1.0:
        price = _price_change(point, base, answer, "a million")
        return f"{name} {_throughput_sentence(point, work, answer)}{price}."
    found = variant_verdict(point, answer)
    words = {
        "better": change_sentence(answer, name, ratio),
        "worse": change_sentence(answer, name, ratio),
        "same": change_or_none_sentence(answer, name, ratio),
        "cannot tell": f"{name}: cannot tell, "
        f"the interval of the change ({format_change(ratio)}) contains 0",
    }
    cost = "" if found == "cannot tell" else _price_change(point, base, answer)
    return f"{words[found]} ({format_quantity(value, answer['unit'])}){cost}."


def _throughput_sentence(point: Point, work: float, answer: Answer) -> str:
    """Text on throughput against the base, for a variant with another work per period."""
    of = point["change"]
    rate = three_digits(work / (1 + of["value"]))
    low, high = (three_digits(work / (1 + b)) for b in reversed(of["interval"] or (0.0, 0.0)))
    sure = f"{low} to {high}; " if of["interval"] else ""
    took = format_quantity(metric_value(point, answer)["value"], "s")
    many = three_digits(work)
    return f"trains {rate} times the tokens per second ({sure}{many} times the work in {took})"


def _price_change(point: Point, base: Point, answer: Answer, what: str = "a million tokens") -> str:
    """Text on the change of the cost of the work; "" if it is unknown or small."""
    if not has_token_price(base, answer):
        return ""
    was, is_ = (p["metrics"].get(TOKENS, {}).get("value") for p in (base, point))
    if not was or is_ is None or abs(is_ / was - 1) < SMALL:
        return ""
    way = "more" if is_ > was else "less"
    size = f"{100 * abs(is_ / was - 1):.1f} %"
    return f"; {what} cost {size} {way} ({format_quantity(is_, 'USD')})"


def _limit_sentence(point: Point, without_reruns: bool, answer: Answer, is_untested: bool) -> str:
    """Sentence on the component with most of the critical path, and on the largest gain.

    Parameters
    ----------
    point : summary of the base scenario
    without_reruns : True if no runs with faster components exist, as in a quick run
    answer : the deciding metric
    is_untested : True if they are missing for another reason
    """
    blame: dict[str, float] = point["blame"]
    whole = sum(blame.values())
    if not whole:
        return "Nothing on the critical path takes time."
    who, most = next(iter(blame.items()))
    better = better_sign(answer)
    best = min(point["faster"], key=lambda c: better * c["faster"], default=None)
    text = f"The critical path is {who} for {100 * most / whole:.0f} % of its time"
    text += _window_text(point)
    if without_reruns or (best is None and is_untested):
        return f"{text}."
    if best is None or better * best["gain"] > -SMALL:
        return f"{text}; making any kind of part 10 % faster gains at most 0.5 %."
    what = "the run" if answer.get("period") else metric_subject(answer)
    return (
        f"{text}; 10 % faster {best['group']} parts would change {what} by "
        f"{format_change(best['gain'])}, instant ones by {format_change(best['bound'])} at most."
    )


def _window_text(point: Point) -> str:
    """Text on the time window that blame covers; "" if it is the whole run."""
    window = point.get("window")
    if window is None:
        return ""
    length = format_quantity(window["length"], "s")
    if "repeated" in window:
        return f", in {window['repeated']} ({length}, run again for its ops)"
    return f", around the worst percent of the answer ({length} in total)"


def expectation_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Sentences on the expectations that are missed, and by which variant."""
    points: Mapping[str, Point] = summary["points"]
    missed = [(name, e) for name, p in points.items() for e in p["expect"] if not e["met"]]
    if not missed:
        return ["Every expectation is met."] if any(p["expect"] for p in points.values()) else []
    return [
        f"Not met{'' if name == BASE else f' by {name}'}: {e['that']} "
        + (
            f"(it is {_missed_value_text(e)})."
            if e["value"] is not None
            else "(the run has no such metric)."
        )
        for name, e in missed
    ]


def _missed_value_text(expectation: Mapping[str, Any]) -> str:
    """Value that misses an expectation, with its unit if known."""
    return (
        format_quantity(expectation["value"], expectation["unit"])
        if expectation.get("unit") is not None
        else f"{expectation['value']:.4g}"
    )


def jitter_sentence(checked: Mapping[str, Any]) -> str:
    """Text on how reliable the interval from jitter is.

    >>> jitter_sentence({"state": "unchecked", "starts": 1})
    'from one process start; others differ by more than its steps do (workload.starts)'
    >>> counts = {"starts": 8, "steps": 240, "held": 0.9, "bar": (0.8, 0.97)}
    >>> jitter_sentence({"state": "held", **counts})
    'from 8 process starts; 90 % intervals contain 90 % of 240 held-out steps'
    """
    if checked["state"] == "unknown":
        return "left out: no distribution of the times is known, so all replicas are equal"
    if checked["state"] == "not drawn":
        return f"not in the interval: needs {checked['fewest']} replicas"
    starts = checked["starts"]
    if checked["state"] == "unchecked":
        many = "one process start" if starts == 1 else f"{starts} process starts"
        return f"from {many}; others differ by more than its steps do (workload.starts)"
    if "fastest" in checked:
        low, fastest = (format_quantity(checked[key], "s") for key in ("low", "fastest"))
        return (
            f"unresolved: from {starts} process starts it would begin at {low}, but the fastest of "
            f"{checked['steps']} steps took {fastest}"
        )
    held = (
        f"90 % intervals contain {100 * checked['held']:.0f} % of {checked['steps']} held-out steps"
    )
    basis = f"from {starts} process starts; {held}"
    if checked["state"] == "held":
        return basis
    low, high = (100 * share for share in checked["bar"])
    return f"unresolved: {basis}, and {low:.0f} to {high:.0f} % are expected"


def trust_sentence(summary: Mapping[str, Any]) -> str:
    """Sentence on how far to trust the answer: its calibration state and inputs."""
    provenance = summary["provenance"]
    inputs = provenance["inputs"]
    listed = ", ".join(f"{n} {kind}" for kind, n in sorted(inputs.items()))
    if provenance["calibration"].startswith(REPLAY):
        others = len(summary["points"]) > 1
        rest = "; only the variants are predictions, and they are blind" if others else ""
        return f"This is a replay: recorded times on the recorded machine, no prediction{rest}."
    how = (
        "This is a blind prediction: no measurement of what it predicts went into it"
        if provenance["calibration"].startswith(BLIND)
        else f"Calibrated: {provenance['calibration']}"
        if not provenance["calibration"].startswith(DRIVEN)
        else f"This run was {provenance['calibration']}"
    )
    return f"{how}; its inputs are {listed or inputs_sentence(provenance)}."


def inputs_sentence(provenance: Mapping[str, Any]) -> str:
    """Text on the inputs of a run whose values have no source.

    >>> inputs_sentence({"workloads": ["trace"]}), inputs_sentence({"workloads": ["transfers"]})
    ('the trace alone', 'the list of transfers and what the scenario says')
    """
    kinds = provenance.get("workloads", ["trace"])
    if kinds == ["trace"]:
        return "the trace alone"
    return (
        ", ".join(WORKLOADS.get(k, f"the workload {k}") for k in kinds)
        + " and what the scenario says"
    )
