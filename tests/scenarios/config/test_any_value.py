"""Whatever stands anywhere in a scenario, it loads or all is said: nothing else ever comes out."""

import json
from contextlib import suppress
from functools import cache

from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.config.reading.document import parse_yaml
from foretrace.scenarios.config.reading.tree import to_dict
from foretrace.sim.errors import ScenarioError
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

TEXTS = ["", "x", "gpu", "5 s", "0 GB", "200 Gb/s", "base", "both", "node3.gpu0", "é", "a.b", "*"]
OTHERS = [None, True, 0, -1, 8, 1.5, 1e30, float("nan"), float("inf"), 2**70]
SCALARS = st.sampled_from([*TEXTS, *OTHERS])
VALUES = st.recursive(
    SCALARS,
    lambda below: (
        st.lists(below, max_size=2)
        | st.dictionaries(
            st.sampled_from(["name", "use", "set", "value", "source", "x.y", "from"]), below
        )
    ),
    max_leaves=5,
)
QUIET = settings(phases=[Phase.generate])


@cache
def described(text):
    """A scenario as plain values, which nobody changes."""
    return to_dict(parse_yaml(text))


def places(value, path=()):
    """Every path below."""
    yield path
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, below in pairs:
            yield from places(below, (*path, key))


def changed(tree, path, value):
    """The tree with another value at a path."""
    if not path:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = changed(copy[path[0]], path[1:], value)
    return copy


@given(st.data())
@QUIET
def test_any_value_anywhere_is_taken_or_refused_in_words(whole, catalog, data):
    tree = described(whole)
    for _ in range(data.draw(st.integers(1, 3), "changes")):
        path = data.draw(st.sampled_from(sorted(places(tree), key=str)), "where")
        tree = changed(tree, path, data.draw(VALUES, "value"))
    with suppress(InvalidScenarioError):
        loads(json.dumps(tree), file="s.json", catalogs=[catalog])


@given(st.data())
@QUIET
def test_any_setting_is_taken_or_refused_in_words(whole, catalog, data):
    paths = [".".join(map(str, p)) for p in places(described(whole)) if p]
    path = data.draw(st.sampled_from(paths) | st.text("abc.0*", max_size=8), "path")
    text = data.draw(st.builds(json.dumps, VALUES) | st.text(max_size=8), "text")
    with suppress(ScenarioError):
        loads(whole, file="s.yaml", set=[f"{path}={text}"], catalogs=[catalog])


@given(st.data())
@QUIET
def test_any_text_is_taken_or_refused_in_words(whole, data):
    at = data.draw(st.integers(0, len(whole)), "at")
    upto = data.draw(st.integers(at, min(len(whole), at + 20)), "to")
    inserted = data.draw(st.text("{}[]:,-&*!|>'\"%@`#?\t\n ~ax0\x00é", max_size=6), "inserted")
    with suppress(InvalidScenarioError):
        loads(whole[:at] + inserted + whole[upto:], file="s.yaml")
