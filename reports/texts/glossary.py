"""Glossary of the words in an answer, one sentence each."""

from __future__ import annotations

PERIODS = {
    "iteration": "One step of the optimizer: forward, backward, exchange of gradients, update.",
}  # what a workload may call one of its repetitions
WORDS = {
    "rank": "One process of the job, with a GPU of its own.",
    "p50, p95": "The median; what 95 of 100 stay below.",
    "90 % within": "Measured again, the value would lie there nine times in ten, as far as "
    "what varies and what errs is known.",
    "jitter": "How times differ from one step and one start of the job to the next.",
    "replica": "The same run with jitter drawn anew, as one more start of the job.",
    "blind": "Nobody has measured what is predicted, so no such measurement went into it.",
    "measured, fitted, datasheet, assumed": "Where a value is from: read off a device; chosen so "
    "that a model meets measurements; what a maker says; what nobody has checked.",
    "critical path": "The chain of work and waiting that sets when the run ends: only what is on "
    "it can make the run shorter.",
    "instant": "Infinitely fast: what that part could gain at most, whatever is bought.",
    "exposed communication": "Time in which a rank exchanges data and computes nothing; "
    "overlapped: computes meanwhile.",
    "waiting": "Time in which a rank has nothing to do since another one is late.",
    "makespan": "From the start of the run to its end.",
    "unexplained gap": "Time in which the recording shows nothing, kept as it was recorded.",
}


def words_of_answer(period: str) -> dict[str, str]:
    """The words in an answer, with the workload's own word for its periods.

    >>> list(words_of_answer("iteration"))[0], list(words_of_answer(""))[0]
    ('iteration', 'rank')
    """
    return {name: text for name, text in PERIODS.items() if name == period} | WORDS


def definition_of(word: str) -> str:
    """Definition of a word; "" for a word that is not in the glossary.

    >>> definition_of("p95")
    'The median; what 95 of 100 stay below.'
    >>> definition_of("nonsense")
    ''
    """
    asked = word.casefold()
    known = (PERIODS | WORDS).items()
    return next((text for names, text in known if asked in names.split(", ")), "")
