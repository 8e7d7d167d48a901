"""JSON as its writers make it: what has one meaning is read and noted, the rest is counted."""

import gzip
import json
import random
import re

import pytest
from foretrace.sim.errors import TraceError
from foretrace.traces.formats import json_chunks, kineto
from foretrace.traces.formats.json_mend import mend
from hypothesis import given
from hypothesis import strategies as st

MARK = "@@"


def event(number, **fields):
    return {"ph": "X", "cat": "cpu_op", "name": f"op{number}", "pid": 1, "tid": 1,
            "ts": 10 * number, "dur": 5, **fields}  # fmt: skip


MARKED = event(7, name=MARK, args={"External id": 7, "rate": 1})
EVENTS = [event(n) if n != 7 else MARKED for n in range(200)]
HEADER = {"baseTimeNanoseconds": 5, "distributedInfo": {"rank": 3, "world_size": 8}}


def document(events=EVENTS, **after):
    return json.dumps({**HEADER, "traceEvents": events, **after}, indent=1).encode()


def read(tmp_path, text):
    (tmp_path / "t.json").write_bytes(text)
    return kineto.read(tmp_path / "t.json")


def same_but_name(trace, name):
    """Everything is as written without the damage, and the marked event has this name."""
    names = trace.text("name").tolist()
    assert names == [name if n == 7 else f"op{n}" for n in range(200)]
    assert trace.events["dur"].tolist() == [5000] * 200
    assert trace.events["external"].tolist() == [7 if n == 7 else -1 for n in range(200)]
    assert trace.ranks == (3,)


LATIN = "1 text had bytes that are not UTF-8 and was read as Latin-1"
ESCAPE = "1 text had control characters, quotes or backslashes without an escape"
NAMES = {
    "Latin-1": (b"gr\xfc\xdfe", "grüße", LATIN),
    "Latin-1 next to UTF-8": ("ü".encode() + b" \xfc", "ü ü", LATIN),
    "a character cut in its middle": (b"caf\xc3", "cafÃ", LATIN),
    "a control character": (b"a\x01b", "a\x01b", ESCAPE),
    "a line break and a tab": (b"a\n\tb", "a\n\tb", ESCAPE),
    "a byte 0": (b"a\x00b", "a\x00b", ESCAPE),
    "a Windows path": (rb"C:\Users\me.py", r"C:\Users\me.py", ESCAPE),
    "a backslash at the end": (b"C:\\dir\\", "C:\\dir\\", ESCAPE),
    "quotes": (b'operator ""_s and "x", "y"', 'operator ""_s and "x", "y"', ESCAPE),
    "quotes at both ends": (b'"q"', '"q"', ESCAPE),
    "an escaped quote and a bare one": (rb"""a \"b\" "c" """, 'a "b" "c" ', ESCAPE),
    "brackets in quotes": (b'f("[", "{")', 'f("[", "{")', ESCAPE),
    "half of a surrogate pair": (rb"a\ud83d!", "a�!", ESCAPE),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_name_that_is_not_escaped_is_read_and_noted(tmp_path, case):
    raw, name, note = NAMES[case]
    trace = read(tmp_path, document().replace(MARK.encode(), raw))
    same_but_name(trace, name)
    assert trace.notes == (note,)


@pytest.mark.parametrize("word", ["inf", "-inf", "Infinity", "NaN", "-nan", "nan(ind)", "1.#INF"])
def test_a_number_that_json_does_not_have_is_missing(tmp_path, word):
    trace = read(tmp_path, document().replace(b'"rate": 1', b'"rate": ' + word.encode()))
    same_but_name(trace, MARK)
    assert trace.notes == ("1 number was infinite or not a number and was read as missing",)


COMMA = "1 superfluous comma was left out"
EMPTY = "1 empty event was left out"
UNCLOSED = "1 list of events is not closed, so later events may be missing"
LISTS = {
    "a comma after the last event": (lambda t: t.replace(b"}\n ]", b"},\n ]"), {COMMA}),
    "a comma in an event": (lambda t: t.replace(b'"rate": 1', b'"rate": 1,'), {COMMA}),
    "a comma before the first event": (lambda t: t.replace(b"[\n  {", b"[,\n  {", 1), {COMMA}),
    "an empty event at the end": (lambda t: t.replace(b"}\n ]", b"},\n{} ]"), {EMPTY, COMMA}),
    "an empty event at the begin": (lambda t: t.replace(b"[\n  {", b"[{},{", 1), {EMPTY}),
    "a field without a value": (lambda t: t.replace(b'"rate": 1', b'"rate": '),
                                {"1 field had no value and was read as missing"}),
    "no end of the list": (lambda t: t[: t.rindex(b"]")], {UNCLOSED}),
    "no end, and a comma": (lambda t: t[: t.rindex(b"]")] + b",\n", {UNCLOSED, COMMA}),
    "a byte order mark": (lambda t: b"\xef\xbb\xbf" + t, set()),
}  # fmt: skip


@pytest.mark.parametrize("case", LISTS)
def test_what_is_wrong_between_values_is_mended(tmp_path, case):
    damage, notes = LISTS[case]
    trace = read(tmp_path, damage(document()))
    same_but_name(trace, MARK)
    assert set(trace.notes) == notes


@pytest.mark.parametrize("end", ["]", "", ",\n", "\n"])
@pytest.mark.parametrize("first", ["ph", "name"])
def test_a_list_that_chrome_would_read_is_read(tmp_path, first, end):
    """The list of Chrome's format may lack its closing bracket."""
    every = [{first: e[first], **e} for e in EVENTS]
    text = ("[" + ",\n".join(map(json.dumps, every)) + end).encode()
    trace = read(tmp_path, text.replace(b"op9", b"gr\xfcn"))
    assert len(trace) == 200
    assert "grün" in trace.text("name")


def test_damage_of_the_header_is_mended(tmp_path):
    after = {"traceName": MARK + "x"}
    text = document(**after).replace(MARK.encode() + b"x", rb"C:\logs\x.json")
    same_but_name(read(tmp_path, text), MARK)
    text = document(**after).replace(MARK.encode() + b"x", b"gr\xfcn")
    same_but_name(read(tmp_path, text), MARK)


SKIPPED = {
    "a word that is no value": (b'"ts": 70,', b'"ts": oops,'),
    "a time that is no number": (b'"ts": 70,', b'"ts": nan,'),
    "a value of another type": (b'"External id": 7', b'"External id": [7]'),
    "two values": (b'"ts": 70,', b'"ts": 7 0,'),
    "a missing colon": (b'"ts": 70,', b'"ts" 70,'),
    "a missing comma": (b'"cat": "cpu_op", "name": "@@"', b'"cat": "cpu_op" "name": "@@"'),
    "a missing quote": (b'"cat": "cpu_op", "name": "@@"', b'"cat": "cpu_op, "name": "@@"'),
    "a colon behind a quote": (b'"name": "@@"', b'"name": "a "b": c"'),
    "no phase": (b'"External id": 7, "rate": 1}}', b'"External id": 7, "rate": 1}}, {"name": "x"}'),
}  # fmt: skip


@pytest.mark.parametrize("case", SKIPPED)
def test_one_event_that_cannot_be_read_is_skipped_and_counted(tmp_path, case):
    old, new = SKIPPED[case]
    text = json.dumps({**HEADER, "traceEvents": EVENTS}).encode()
    assert old in text
    trace = read(tmp_path, text.replace(old, new))
    left = trace.text("name").tolist()
    assert len(left) >= 199
    assert [n for n in left if n != MARK] == [f"op{n}" for n in range(200) if n != 7]
    (note,) = trace.notes
    assert note.startswith("1 event was skipped, because it cannot be read (")
    assert "t.json: " in note


def test_above_one_percent_of_events_a_trace_is_refused(tmp_path):
    text = json.dumps({"traceEvents": EVENTS}).encode()
    for ts in (b"50", b"60"):
        text = text.replace(b'"ts": %b,' % ts, b'"ts": oops,')
    assert len(read(tmp_path, text)) == 198
    text = text.replace(b'"ts": 90,', b'"ts": oops,')
    with pytest.raises(TraceError, match=r"t.json: line 1, column \d+: JSON is wrong"):
        read(tmp_path, text)


@pytest.mark.parametrize("cut", [b'"dur": 5', b'"name": "op199', b'"op1'])
def test_a_file_that_breaks_off_inside_an_event_is_refused(tmp_path, cut):
    """How many events are missing is unknown."""
    text = json.dumps({"traceEvents": EVENTS}).encode()
    with pytest.raises(TraceError, match="JSON ends in the middle"):
        read(tmp_path, text[: text.rindex(cut) + len(cut)])


def test_utf_16_is_refused_and_the_cure_works(tmp_path):
    text = document()
    with pytest.raises(TraceError, match=r"is UTF-16; convert it to UTF-8 \(iconv -f UTF-16"):
        read(tmp_path, text.decode().encode("utf-16"))
    same_but_name(read(tmp_path, text.decode().encode("utf-16").decode("utf-16").encode()), MARK)


def test_only_the_chunk_with_the_damage_is_mended(tmp_path, monkeypatch):
    monkeypatch.setattr(json_chunks, "CHUNK", 4096)
    mended = []
    original = kineto.Mending.read
    monkeypatch.setattr(
        kineto.Mending,
        "read",
        lambda self, text, why: mended.append(1) or original(self, text, why),
    )
    text = json.dumps({**HEADER, "traceEvents": EVENTS}).encode()
    (tmp_path / "x.json").write_bytes(text)
    assert len(list(json_chunks.json_chunks(tmp_path / "x.json", 2**30))) > 3
    same_but_name(read(tmp_path, gzip.compress(text)), MARK)
    assert not mended
    same_but_name(read(tmp_path, text.replace(MARK.encode(), b"\xfc")), "ü")
    assert len(mended) == 1


def test_strict_json_stays_as_it_is():
    """Mending what needs no mending changes nothing."""
    draw = random.Random(1)
    values = ["a\"b", "\\", "c\\\"", "}", ']"', ", \"x\": ", "é\n", 1, -2.5e3, None, True, [],
              {}, [[]], {"k": [1, {"": ""}]}]  # fmt: skip
    for _ in range(500):
        made = [{"k": draw.choice(values), "l": [draw.choice(values)] * draw.randrange(3)}]
        text = json.dumps(made, ensure_ascii=bool(draw.randrange(2)), indent=draw.randrange(2))
        mended = mend(text.encode().strip()[1:])
        assert json.loads(b"[" + mended.text + b"]") == made
        assert not +mended.changes
        assert mended.closed
        assert mended.complete


PIECES = [b'"', b"\\", b"\xff", b"\n", b",", b":", b"{", b"}", b"[", b"]", b"inf", b'", "', b'": ']


@given(
    st.integers(0, 10**6),
    st.integers(0, 3),
    st.one_of(st.sampled_from(PIECES), st.binary(max_size=3)),
    st.sampled_from(["ph", "name"]),
)
def test_damage_of_one_event_never_changes_another(tmp_path_factory, at, length, new, first):
    """Read, skipped and counted, or refused: other events are as they were."""
    path = tmp_path_factory.mktemp("damaged") / "t.json"
    events = [json.dumps({first: e[first], **e}).encode() for e in EVENTS]
    at %= len(events[7]) + 1
    events[7] = events[7][:at] + new + events[7][at + length :]
    path.write_bytes(b'{"traceEvents": [' + b", ".join(events) + b"]}")
    try:
        trace = kineto.read(path)
    except TraceError:
        return
    names = trace.text("name").tolist()
    others = [n for n in names if re.fullmatch(r"op(?!7$)\d+", n)]
    skipped = sum(int(n.partition(" ")[0]) for n in trace.notes if "skipped" in n)
    lost = {f"op{n}" for n in range(200) if n != 7} - set(others)
    assert lost <= {"op6"}, "only the neighbour of a damaged comma"
    assert others == [f"op{n}" for n in range(200) if n != 7 and f"op{n}" not in lost]
    assert len(names) >= 200 - skipped
    assert skipped >= len(lost)
