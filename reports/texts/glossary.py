"""Glossary of the words in an answer, one sentence each."""

from __future__ import annotations

PERIODS = {
    "iteration": "One step of the optimizer: forward, backward, exchange of gradients, update.",
}  # what a workload may call one of its repetitions
WORDS = {
    "rank": "One process of the job, with a GPU of its own.",
    "p50, p95": "The median; the value that 95 of 100 samples do not exceed.",
    "90 % within": "A repeated measurement would be in this range nine times in ten, as far as "
    "jitter and model errors are known.",
    "jitter": "Random differences of times between steps and between starts of the job.",
    "replica": "The same run with new random jitter, like another start of the job.",
    "blind": "Predicted without any measurement of the predicted job.",
    "measured, fitted, datasheet, assumed": "Where a value is from: measured on a device; chosen "
    "so that a model matches measurements; published by the vendor; not checked by anybody.",
    "critical path": "The chain of work and waiting that sets when the run ends: only what is on "
    "it can make the run shorter.",
    "instant": "Infinitely fast: the most that an improvement of that part can gain.",
    "exposed communication": "Time in which a rank communicates and does not compute. "
    "Overlapped: it computes at the same time.",
    "waiting": "Time in which a rank has nothing to do because another rank is late.",
    "makespan": "Time from the start of the run to its end.",
    "unexplained gap": "Time in which the recording shows nothing, kept as it was recorded.",
}


def answer_glossary(period: str) -> dict[str, str]:
    """Definitions of the words in an answer, including the workload's word for its periods.

    >>> list(answer_glossary("iteration"))[0], list(answer_glossary(""))[0]
    ('iteration', 'rank')
    """
    return {name: text for name, text in PERIODS.items() if name == period} | WORDS


def definition_of(word: str) -> str:
    """Definition of a word; "" for a word that is not in the glossary.

    >>> definition_of("p95")
    'The median; the value that 95 of 100 samples do not exceed.'
    >>> definition_of("nonsense")
    ''
    """
    asked = word.casefold()
    known = (PERIODS | WORDS).items()
    return next((text for names, text in known if asked in names.split(", ")), "")
