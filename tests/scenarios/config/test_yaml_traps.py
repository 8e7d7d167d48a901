"""What YAML can do to a scenario: each trap is an error with a name, or harmless."""

import pytest
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.config.reading import document
from foretrace.scenarios.config.reading.document import parse_yaml, read_yaml_file
from foretrace.scenarios.config.reading.tree import to_dict

BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{new}: &{new} [{','.join(['*' + old] * 10)}]\n"
    for old, new in zip("abcde", "bcdef", strict=True)
)
REFUSED = {
    "a: 1\na: 2": ("duplicate-key", "2:1", "'a' is given twice, first in line 1; keep one of them"),
    "a:\n\tb: 1": ("tab", "2:1", "a tab is used for indentation; use spaces"),
    "": ("no-mapping", "1:1", "the file is empty; begin with 'foretrace: 1'"),
    "# nothing\n": ("no-mapping", "1:1", "the file is empty; begin with 'foretrace: 1'"),
    "- a\n- b": (
        "no-mapping",
        "1:1",
        "the file is not a mapping of keys to values; begin with 'foretrace: 1'",
    ),
    "just text": (
        "no-mapping",
        "1:1",
        "the file is not a mapping of keys to values; begin with 'foretrace: 1'",
    ),
    "a: &x [*x]": ("alias", "1:4", "an alias contains itself; write the values out"),
    BOMB: ("alias", "1:10", "an alias expands to over 20000 values; write the values out"),
    "[" * 1000: ("too-deep", "1:1", "nested too deeply; write it with fewer levels"),
    "a: " + "9" * 5000: (
        "number",
        "1:4",
        "a number of 5000 digits cannot be read; write a shorter one",
    ),
    "a: !!python/object:os.system 1": (
        "tag",
        "1:4",
        "the YAML tag 'python/object:os.system' is not supported; write the value without a tag",
    ),
    "a: !secret 1": (
        "tag",
        "1:4",
        "the YAML tag '!secret' is not supported; write the value without a tag",
    ),
    "<<: {a: 1}": (
        "key-not-text",
        "1:1",
        "'<<' is not supported; use 'extends', or write the keys out",
    ),
    "1: a": ("key-not-text", "1:1", "the key 1 is not text; put it in quotes"),
    "? [a]\n: 1": (
        "key-not-text",
        "1:3",
        "the key is a mapping or a list; write a word as the key",
    ),
    "a: 1\n---\nb: 2": (
        "syntax",
        "2:1",
        "not YAML: expected a single document in the stream, but found another document; "
        "keep one, without '---' between",
    ),
    "a: 'x": (
        "syntax",
        "1:6",
        "not YAML: while scanning a quoted scalar, found unexpected end of stream; "
        "close the quote or bracket",
    ),
    "a: *gpu*": (
        "syntax",
        "1:4",
        "not YAML: found undefined alias 'gpu*'; "
        "write the value out, or quote text that begins with '*'",
    ),
    "a: @b": (
        "syntax",
        "1:4",
        "not YAML: while scanning for the next token, found character '@' that cannot start any "
        "token; put text that begins with this character in quotes",
    ),
    "a: {value: 1, source: {kind: guess}}": (
        "source",
        "1:30",
        "the source has no known kind; write one of: measured, fitted, datasheet, assumed",
    ),
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda t: t[:20])
def test_a_trap_is_an_error_with_a_name(text):
    with pytest.raises(InvalidScenarioError) as caught:
        parse_yaml(text, "s.yaml")
    kind, place, message = REFUSED[text]
    problem = caught.value.problems[0]
    assert (problem.kind, problem.message) == (kind, message)
    if text is not BOMB:
        assert str(problem.spot) == f"s.yaml:{place}"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1e6", 1e6),
        ("on", "on"),
        ("no", "no"),
        ("12:30:45", "12:30:45"),
        ("010", 10),
        ("0x1F", 31),
        ("1_000", 1000),
        ("2026-11-21", "2026-11-21"),
        ("true", True),
        ("~", None),
        ("'5'", "5"),
        ("3.10", 3.1),
    ],
)
def test_scalars_are_read_as_yaml_1_2_has_them(written, value):
    found = parse_yaml(f"a: {written}")["a"].value
    assert found == value
    assert type(found) is type(value)


def test_text_that_is_not_utf8_is_refused_with_its_line(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_bytes(b"name: a\nquestion: caf\xe9\n")
    with pytest.raises(InvalidScenarioError, match=r"s.yaml:2:1") as caught:
        load(file)
    assert "byte 21 (0xe9) is not UTF-8; save it as UTF-8" in str(caught.value)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_bytes(b"\xef\xbb\xbfname: a\n")
    assert to_dict(read_yaml_file(file)) == {"name": "a"}


def test_a_huge_file_is_refused_unread(tmp_path, monkeypatch):
    file = tmp_path / "s.yaml"
    file.write_text("a: 1\n" * 10)
    monkeypatch.setattr(document, "LARGEST", 40)
    with pytest.raises(InvalidScenarioError, match="has 50 bytes, a scenario has at most 40"):
        read_yaml_file(file)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing.yaml", "cannot read 'nothing.yaml': No such file or directory"),
        ("folder/", "cannot read 'folder/': Is a directory"),
        ("foretrace:nothing", "no scenario file and no bundled scenario 'nothing'"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(files, name, said):
    (files() / "folder").mkdir()
    with pytest.raises(InvalidScenarioError) as caught:
        load(name)
    assert said in str(caught.value)


def test_an_alias_that_stays_small_is_followed():
    assert to_dict(parse_yaml("a: &x {b: 1}\nc: *x")) == {"a": {"b": 1}, "c": {"b": 1}}


def test_every_key_and_value_knows_where_it_stands():
    tree = parse_yaml("a:\n  b: [1, {c: 200 Gb/s}]\n", "s.yaml")
    node = tree["a"]["b"][1]["c"]
    assert (str(node.spot), node.spot.width, node.spot.path) == ("s.yaml:2:14", 8, "a.b.1.c")
    assert (str(node.label), node.label.width) == ("s.yaml:2:11", 11)
