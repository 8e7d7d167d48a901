"""Edits of a typed command, as advice prints it: the same command with one option changed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

SILENT = ("--json", "-q", "--quiet", "--no-cache")  # options that change only the output
SAME = {"--replicas": "run.replicas", "--seed": "run.seed", "--defend": "run.defend",
        "--quick": "run.defend"}  # fmt: skip  # --quick leaves out what --defend adds
SETS, CARRIED = "--set", ("--set", "--catalog", "--out")
Option = tuple[str, ...]  # an option with its value, or a word


def with_option(command: str, option: str, value: str = "") -> str:
    """A command with one option added, or replaced if it is already there.

    Parameters
    ----------
    command : the command as typed
    option, value : the option and its value; for ``--set`` the value is ``PATH=VALUE``

    Examples
    --------
    >>> typed = "foretrace run s.yaml --replicas 5 --set run.seed=2 --json"
    >>> with_option(typed, "--replicas", "10")
    'foretrace run s.yaml --set run.seed=2 --replicas 10'
    >>> with_option("foretrace run s.yaml --set a.b=1", "--set", "a.b=2")
    'foretrace run s.yaml --set a.b=2'
    >>> with_option("foretrace run s.yaml --quick", "--defend")
    'foretrace run s.yaml --defend'
    """
    new = (option, value) if value else (option,)
    about = _setting_of_option(new)
    kept = [s for s in _options(command) if _setting_of_option(s) != about and s[0] not in SILENT]
    return _join_options([*kept, new])


def option_value(command: str, path: str) -> str | None:
    """Value that a command gives to a setting with ``--set``; None if it gives none.

    >>> option_value("foretrace run s.yaml --set a.b=1 --set=a.b=2", "a.b")
    '2'
    """
    values = [s[1] for s in _options(command) if _setting_of_option(s) == path]
    return values[-1].partition("=")[2].strip() if values and "=" in values[-1] else None


def carry_scenario_options(command: str, start: Iterable[str], sets: Iterable[str] = ()) -> str:
    """A new command that keeps the scenario options of another one, with further settings.

    Parameters
    ----------
    command : the command whose ``--set``, ``--catalog`` and ``--out`` are kept
    start : first words of the new command
    sets : further ``PATH=VALUE`` settings, which override those of ``command``

    Examples
    --------
    >>> carry_scenario_options("foretrace sweep s.yaml --set a=1 --set b=2",
    ...     ["foretrace", "run", "s.yaml"], ["a=3"])
    'foretrace run s.yaml --set b=2 --set a=3'
    """
    new = [(SETS, text) for text in sets]
    taken = {_setting_of_option(s) for s in new}
    kept = [s for s in _options(command) if s[0] in CARRIED and _setting_of_option(s) not in taken]
    return _join_options([*((word,) for word in start), *kept, *new])


def _options(command: str) -> list[Option]:
    """Options with their values, and other words of a command, in order."""
    words, options = shlex.split(command), list[Option]()
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if word.startswith("--") and equals:
            options.append((name, value))
        elif (
            word.startswith("--") and words and not words[0].startswith("-") and _takes_value(word)
        ):
            options.append((word, words.pop(0)))
        else:
            options.append((word,))
    return options


def _takes_value(option: str) -> bool:
    """True if an option takes a value, which all but switches do."""
    return option not in (
        *SILENT,
        "--defend",
        "--quick",
        "--resume",
        "--no-resume",
    )


def _setting_of_option(option: Option) -> str:
    """Setting that an option changes (``--seed``: ``run.seed``), else the option; "" for words."""
    if option[0] == SETS and len(option) > 1:
        return option[1].partition("=")[0].strip()
    return SAME.get(option[0], option[0] if option[0].startswith("-") else "")


def _join_options(options: Iterable[Option]) -> str:
    return shlex.join([word for one in options for word in one])
