"""Native traces that somebody or something damaged: what is said, to the letter, and exit code 2.

Each row breaks one thing in a whole trace of two events, which lies in the folder ``t``.
"""

import json

import duckdb
import pytest
from foretrace.traces.formats import native
from foretrace.traces.trace import Trace

AGAIN = "import the trace again"


def said(**changes):
    """Another value in the manifest; None takes the key out."""

    def change(folder):
        file = folder / "trace.json"
        told = {**json.loads(file.read_text()), **changes}
        file.write_text(json.dumps({k: v for k, v in told.items() if v is not None}))

    return change


def manifest(text):
    return lambda folder: (folder / "trace.json").write_bytes(text)


def rewritten(columns):
    """The events as such a SELECT gives them."""

    def change(folder):
        file, new = folder / "events.parquet", folder / "new"
        with duckdb.connect() as db:
            rows = f"SELECT {columns} FROM '{file}'"
            db.execute(f"COPY ({rows}) TO '{new}' (FORMAT parquet)")
        new.replace(file)

    return change


def column(expression):
    """The events with a column replaced."""
    return rewritten(f"* REPLACE ({expression})")


def file(name, content):
    return lambda folder: (folder / name).write_bytes(content)


TABLE = {
    "no JSON": (
        manifest(b"{"),
        f"t/trace.json: Input data was truncated; {AGAIN}",
    ),
    "not UTF-8": (
        manifest(b'{"schema": 2, "origin": "\xff"}'),
        "t/trace.json: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte; "
        + AGAIN,
    ),
    "a list": (
        manifest(b"[]"),
        f"t/trace.json: Expected `object`, got `array`; {AGAIN}",
    ),
    "a later schema": (
        said(schema=99),
        f"t: has schema 99, this version reads 1 to 3; {AGAIN}",
    ),
    "no schema": (
        said(schema=None),
        f"t/trace.json: Object missing required field `schema`; {AGAIN}",
    ),
    "no tracks": (
        said(tracks=None),
        f"t/trace.json: Object missing required field `tracks`; {AGAIN}",
    ),
    "no files": (
        said(processes=[]),
        f"t/trace.json: Expected `array` of length >= 1 - at `$.processes`; {AGAIN}",
    ),
    "an origin that is no number": (
        said(origin="noon"),
        "t/trace.json: Expected `str` matching regex '^-?\\\\d{1,40}$' - at `$.origin`; " + AGAIN,
    ),
    "no time in a second": (
        said(resolution=0),
        f"t/trace.json: Expected `int` >= 1 - at `$.resolution`; {AGAIN}",
    ),
    "a rank beyond all jobs": (
        said(processes=[[2**40, "rank0.json", 2, "", "", []]]),
        "t: rank0.json has rank 1099511627776 of 2; a job has ranks from 0, and at most "
        "1048576: record it again",
    ),
    "events of a rank that is not there": (
        said(processes=[[1, "rank1.json", 2, "", "", []]]),
        "t: events and files are of different ranks; the trace is damaged, import it again",
    ),
    "a table that is no parquet": (
        file("syncs.parquet", b"PAR1"),
        "t/syncs.parquet: cannot be read (Invalid Input Error: File 't/syncs.parquet' too small to "
        f"be a Parquet file); {AGAIN}",
    ),
    "a column too few": (
        rewritten("* EXCLUDE (dur)"),
        't/events.parquet: cannot be read (Binder Error: Referenced column "dur" not found in '
        f"FROM clause!); {AGAIN}",
    ),
    "a column of texts": (
        column("'soon' AS dur"),
        f"t/events.parquet: column dur has type object or values that do not fit into "
        f"int64; {AGAIN}",
    ),
    "a column of fractions": (
        column("0.5::double AS ts"),
        f"t/events.parquet: column ts has type float64 or values that do not fit into "
        f"int64; {AGAIN}",
    ),
    "a number that is too large": (
        column("(5000000000)::bigint AS track"),
        f"t/events.parquet: column track has type int64 or values that do not fit into "
        f"int32; {AGAIN}",
    ),
    "a value that is not there": (
        column("CASE WHEN ts > 0 THEN NULL ELSE ts END AS ts"),
        f"t/events.parquet: row 1 has no ts; {AGAIN}",
    ),
    "a text that is not there": (
        column("7::integer AS name"),
        "t: events: row 0: name is 7, not within -1 to 1; the trace is damaged, import it again",
    ),
    "a track that is not there": (
        column("1::integer AS track"),
        "t: events: row 0: track is 1, not within 0 to 0; the trace is damaged, import it again",
    ),
    "a negative duration": (
        column("-dur AS dur"),
        "t: events: row 0: dur is -2, not within 0 to 4611686018427387904; the trace is damaged, "
        "import it again",
    ),
    "a kind that is none": (
        column("9::utinyint AS kind"),
        "t: events: row 0: kind is 9, not within 0 to 8; the trace is damaged, import it again",
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_broken_input_is_reported_with_its_place_and_a_cure(case, refused, tmp_path):
    native.write(
        Trace.of(strings=("a", "b"), name=[0, 1], kind=0, ts=[0, 5], dur=[2, 2]), tmp_path / "t"
    )
    damage, message = TABLE[case]
    damage(tmp_path / "t")
    assert refused("trace", "info", "t") == message


def test_a_table_that_is_gone_is_named(refused, tmp_path):
    native.write(Trace.of(ts=[0]), tmp_path / "t")
    (tmp_path / "t" / "events.parquet").unlink()
    assert refused("trace", "info", "t").startswith("t/events.parquet: cannot be read (IO Error: ")
