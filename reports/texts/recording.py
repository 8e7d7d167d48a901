"""Sentences on what a recording lost, on what of it was not read, and on what was guessed."""

from __future__ import annotations

from collections.abc import Mapping

FACT = "recording"


def recording_sentences(facts: Mapping[str, object]) -> list[str]:
    """Sentences on the quality of the recording of a run or report; empty if nothing is wrong.

    >>> recording_sentences({"recording": "2 of 90 launches have no work: the profiler lost it."})
    ['2 of 90 launches have no work: the profiler lost it.']
    >>> recording_sentences({"ranks": 1})
    []
    """
    told = facts.get(FACT)
    return [str(told)] if told else []
