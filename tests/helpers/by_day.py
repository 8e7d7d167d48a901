"""Parameters of many alike: a spread of them on every push, the rest in `make nightly`."""

import os
from datetime import date

import pytest

NIGHTS = 5  # nights in which all seeds have been used


def every(step, params):
    """One in so many of these by day, beginning with the first."""
    return [p if i % step == 0 else by_night(p) for i, p in enumerate(params)]


def only(kept, params):
    """These by day; each must be one of the parameters."""
    assert not set(kept) - set(params), set(kept) - set(params)
    return [p if p in kept else by_night(p) for p in params]


def by_night(param):
    """A parameter, or a tuple of several, for the nightly run alone."""
    if hasattr(param, "marks"):
        return pytest.param(*param.values, marks=(*param.marks, pytest.mark.nightly), id=param.id)
    values = param if isinstance(param, tuple) else (param,)
    return pytest.param(*values, marks=pytest.mark.nightly)


def tonight(seeds):
    """A fifth of many seeds, others each night; all of them if FORETRACE_NIGHTS is all."""
    if os.environ.get("FORETRACE_NIGHTS") == "all":
        return seeds
    return seeds[date.today().toordinal() % NIGHTS :: NIGHTS]
