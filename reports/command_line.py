"""A command that was typed, with one thing changed: what advice tells to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

SILENT = ("--json", "-q", "--quiet", "--no-cache")  # they shape what is shown, not what is asked
SAME = {"--replicas": "run.replicas", "--seed": "run.seed", "--defend": "run.defend"}
SETS, CARRIED = "--set", ("--set", "--catalog", "--out")
Said = tuple[str, ...]  # an option with its value, or a word


def command_line(command: str, option: str, value: str = "") -> str:
    """A command with an option in the place of what it said of the same.

    Parameters
    ----------
    command : as it was typed
    option, value : what changes; of ``--set`` a value ``PATH=VALUE``

    Examples
    --------
    >>> command_line("foretrace run s.yaml --replicas 5 --set run.seed=2 --json", "--replicas", "10")
    'foretrace run s.yaml --set run.seed=2 --replicas 10'
    >>> command_line("foretrace run s.yaml --set a.b=1", "--set", "a.b=2")
    'foretrace run s.yaml --set a.b=2'
    """
    new = (option, value) if value else (option,)
    about = _about(new)
    kept = [s for s in _said(command) if _about(s) != about and s[0] not in SILENT]
    return _joined([*kept, new])


def given(command: str, path: str) -> str | None:
    """The value that a command gives to a setting by ``--set``; None for none.

    >>> given("foretrace run s.yaml --set a.b=1 --set=a.b=2", "a.b")
    '2'
    """
    found = [s[1] for s in _said(command) if _about(s) == path]
    return found[-1].partition("=")[2].strip() if found and "=" in found[-1] else None


def carried(command: str, start: Iterable[str], sets: Iterable[str] = ()) -> str:
    """Another command with what the first one said of the scenario, and settings of its own.

    Parameters
    ----------
    command : whose ``--set``, ``--catalog`` and ``--out`` hold
    start : words that the new one begins with
    sets : ``PATH=VALUE`` texts, over those

    Examples
    --------
    >>> carried("foretrace sweep s.yaml --set a=1 --set b=2", ["foretrace", "run", "s.yaml"],
    ...     ["a=3"])
    'foretrace run s.yaml --set b=2 --set a=3'
    """
    new = [(SETS, text) for text in sets]
    taken = {_about(s) for s in new}
    kept = [s for s in _said(command) if s[0] in CARRIED and _about(s) not in taken]
    return _joined([*((word,) for word in start), *kept, *new])


def _said(command: str) -> list[Said]:
    """Options with their values, and words, in order."""
    words, found = shlex.split(command), list[Said]()
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if word.startswith("--") and equals:
            found.append((name, value))
        elif word.startswith("--") and words and not words[0].startswith("-") and _takes(word):
            found.append((word, words.pop(0)))
        else:
            found.append((word,))
    return found


def _takes(option: str) -> bool:
    """Does an option have a value: all do but switches."""
    return option not in (*SILENT, "--defend", "--interactive", "--resume", "--no-resume")


def _about(said: Said) -> str:
    """What an option decides: a setting by its path, else the option itself; "" of a word."""
    if said[0] == SETS and len(said) > 1:
        return said[1].partition("=")[0].strip()
    return SAME.get(said[0], said[0] if said[0].startswith("-") else "")


def _joined(said: Iterable[Said]) -> str:
    return shlex.join([word for one in said for word in one])
