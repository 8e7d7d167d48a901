"""Answer sentences for a recording: where time goes, and which rank others wait for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..numbers import format_quantity, format_share
from ..texts.recording import recording_sentences
from ..texts.waiting import last_arriver_sentence

LEAST = 0.005  # smallest share that is shown
SAID = {"waiting": "waiting for other ranks", "host": "host alone", "memory": "copies alone"}
Recorded = Mapping[str, Any]


def recorded_sentences(summary: Recorded) -> list[str]:
    """Sentences of the answer for a recording.

    Parameters
    ----------
    summary : ``ranks`` (numbers of the recorded ranks), ``world`` (ranks of the job; 0 if
        unknown), ``seconds`` (length), ``boxes`` (s per rank, by time category), ``kernels`` (s
        per rank in which a kernel of a kind runs), ``gpu`` (fraction of time in which each rank's
        GPU works), ``steps`` (s, by rank), ``path`` (what the critical path is charged to),
        ``late`` (waiting for late ranks), ``facts``
    """
    return [
        *recording_sentences(summary["facts"]),
        _size_sentence(summary),
        f"{_time_subject(summary)}: {mean_rank_text(summary)}.{_kernels_text(summary)}",
        cause_sentence(summary),
        f"The critical path: {critical_path_text(summary)}.",
        certainty_sentence(summary),
    ]


def _time_subject(summary: Recorded) -> str:
    return "Its time" if len(summary["ranks"]) == 1 else "Time of the mean rank"


def _size_sentence(summary: Recorded) -> str:
    steps = [t for of_rank in summary["steps"] for t in of_rank]
    text = f"{_ranks_text(summary)}, {format_quantity(summary['seconds'], 's')} recorded"
    if not steps:
        return f"{text}."
    least, most = (format_quantity(t, "s") for t in (min(steps), max(steps)))
    return f"{text}; a step takes {least}{f' to {most}' * (least != most)}."


def _ranks_text(summary: Recorded) -> str:
    """Text on the number of recorded ranks, and on which they are if the job has more.

    >>> _ranks_text({"ranks": [0, 1], "world": 2}), _ranks_text({"ranks": [3], "world": 8})
    ('2 ranks', 'Rank 3 of 8')
    >>> _ranks_text({"ranks": [2, 5], "world": 8})
    'Ranks 2, 5 of 8 (here 0 to 1)'
    >>> _ranks_text({"ranks": [0, 1, 10], "world": 0})
    'Ranks 0, 1, 10 (here 0 to 2)'
    """
    ranks, world = summary["ranks"], summary["world"]
    count = len(ranks)
    renumbered = "" if ranks == list(range(count)) else f" (here 0 to {count - 1})"
    if world <= count or world == 1:
        named = f"Ranks {', '.join(map(str, ranks))}{renumbered}"
        return named if renumbered and count > 1 else f"{count} rank{'s' * (count != 1)}"
    if count == 1:
        return f"Rank {ranks[0]} of {world}"
    return f"Ranks {', '.join(map(str, ranks))} of {world}{renumbered}"


def mean_rank_text(summary: Recorded) -> str:
    """Time breakdown of the mean rank in per cent, largest part first.

    >>> mean_rank_text({"boxes": {"compute": [1.0, 3.0], "waiting": [2.0, 0.0]}})
    'compute 67 %, waiting for other ranks 33 %'
    """
    means = {box: sum(times) / len(times) for box, times in summary["boxes"].items()}
    whole = sum(means.values()) or 1.0
    return ", ".join(
        f"{SAID.get(box, box.replace('_', ' '))} {format_share(t / whole, 0)}"
        for box, t in sorted(means.items(), key=lambda item: -item[1])
        if t / whole >= LEAST
    )


def _kernels_text(summary: Recorded) -> str:
    """Text on the fraction of time in which kernels run, and the seconds of each kind.

    >>> one = {"gpu": [0.5, 0.3], "kernels": {"compute": [2.0, 4.0], "copies": [0.5, 0.0]}}
    >>> _kernels_text(one)
    ' Kernels run for 40 % of it: compute 3 s; copies 250 ms.'
    """
    count = len(summary["gpu"])
    means = {kind: sum(times) / count for kind, times in summary["kernels"].items()}
    parts = {kind: f"{kind} {format_quantity(t, 's')}" for kind, t in means.items() if t > 0}
    if "communication" in parts:
        parts["communication"] += " (its waiting included)"
    copies = parts.pop("copies", "")
    if not parts:
        return ""
    share = format_share(sum(summary["gpu"]) / count, 0)
    listed = ", ".join(parts.values())
    return f" Kernels run for {share} of it: {listed}{f'; {copies}' * bool(copies)}."


def cause_sentence(summary: Recorded) -> str:
    """Sentence on which rank the others wait for, or that there is no single such rank.

    >>> cause_sentence({"ranks": [0, 1], "world": 2})
    'No rank waits for another at a collective.'
    """
    late = summary.get("late")
    if late is None and len(summary["ranks"]) < summary["world"]:
        return (
            "The files of the other ranks are needed to tell which one it waits for; without them, "
            "waiting is counted as communication."
        )
    if late is None:
        return "No rank waits for another at a collective."
    if sentence := last_arriver_sentence(summary):
        return sentence
    most = max(late["ranks"], key=lambda one: float(one["late"]))
    whole = format_quantity(late["waited"], "s")
    return (
        f"No single rank is the cause: ranks wait {whole} for others in total, longest for rank "
        f"{most['rank']} ({format_quantity(most['late'], 's')}, last in {most['last']:,} of "
        f"{late['collectives']:,} collectives)."
    )


def critical_path_text(summary: Recorded) -> str:
    """Shares of the critical path by what they are charged to, with the rank.

    >>> path = [{"what": "host", "rank": 4, "seconds": 3.0},
    ...         {"what": "network", "rank": None, "seconds": 1.0}]
    >>> critical_path_text({"path": path, "ranks": range(8)})
    'host of rank 4 75 %, network 25 %'
    """
    whole = sum(one["seconds"] for one in summary["path"]) or 1.0
    return ", ".join(
        f"{name} {format_share(t / whole, 0)}"
        for name, t in critical_path_rows(summary)
        if t / whole >= LEAST
    )


def critical_path_rows(summary: Recorded) -> Iterator[tuple[str, float]]:
    """Yield (what it is charged to, time in s) for each part of the critical path."""
    for one in summary["path"]:
        of = "" if one["rank"] is None or len(summary["ranks"]) == 1 else f" of rank {one['rank']}"
        yield f"{one['what']}{of}", one["seconds"]


def certainty_sentence(summary: Recorded) -> str:
    """Sentence on how much of the dependencies was inferred, and how much time is unexplained."""
    facts = summary["facts"]
    shares = [
        f"{format_share(facts[key], 0)} {what}"
        for key, what in (
            ("inferred_share", "of the dependencies are inferred"),
            ("gap_share", "of the time is unexplained gaps"),
        )
        if key in facts
    ]
    return f"This is a replay: times as recorded, nothing is predicted{_listed(shares)}."


def _listed(shares: list[str]) -> str:
    return f"; {', '.join(shares)}" if shares else ""
