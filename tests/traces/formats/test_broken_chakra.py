"""Broken Chakra traces: what is said, to the letter, and exit code 2.

Each row is what lies in the folder: nodes of each rank as ``x.RANK.et``, or bytes of ``x.0.et``.
"""

import gzip

import pytest
from foretrace.traces.formats.chakra.files import save_rank_file
from foretrace.traces.formats.chakra.messages import NodeType, make_attribute, message_classes

SCENARIO = """\
foretrace: 1
name: tiny
workload: {trace: x.*.et, format: chakra}
cluster: {nodes: 1, node: {gpu: epyc-zen4-core}}
"""


def node(number, kind=NodeType.COMP, *, waits=(), name="", **said):
    made = message_classes().Node(
        id=number, name=name, type=kind, data_deps=waits, duration_micros=3
    )
    made.attr.extend(make_attribute(k.replace("__", "."), v) for k, v in said.items())
    return made


def together(number, **said):
    return node(number, NodeType.COMM_COLL, **{"comm_type": 0, "comm_size": 8, **said})


def third(number):
    return together(number, pg_name="3")


def twice():
    made = node(1, num_ops=1)
    made.attr.append(make_attribute("num_ops", 2))
    return made


MESSAGE = (
    "is damaged or ends in the middle; this is not a Chakra trace, or it was cut short: export it "
    "again"
)
JSON = "this is not a Chakra trace in JSON form, export it again"
AGAIN = "export the trace again"

NODES = {
    "an unknown dependency": (
        [[node(1, waits=[5], name="mm")]],
        "x.0.et: node 1 (mm) waits for node 5, which is not in the file; export the trace again",
    ),
    "the same id twice": (
        [[node(1), node(1)]],
        f"x.0.et: node 1 (unnamed) has the same id as another node; {AGAIN}",
    ),
    "a message that nobody sends": (
        [[node(1, NodeType.COMM_RECV, comm_src=1, comm_tag=2)], []],
        "x.0.et: node 1 (unnamed) receives from rank 1 with tag 2, which sends no such message; "
        "export all ranks of one run",
    ),
    "a message without a source": (
        [[node(1, NodeType.COMM_RECV)]],
        f"x.0.et: node 1 (unnamed) has no attribute 'comm_src'; {AGAIN}",
    ),
    "a collective too few": (
        [[third(1)], [], [third(1), third(2)]],
        "x: rank 0 has 1 collectives of group '3', rank 2 has 2; export all ranks of one run",
    ),
    "members that disagree": (
        [[together(1)], [together(1, comm_type=6)]],
        "x.1.et: node 1 (unnamed) is no all-reduce, as it is on rank 0; export all ranks of one "
        "run",
    ),
    "a collective of no type": (
        [[node(1, NodeType.COMM_COLL, comm_size=8)]],
        f"x.0.et: node 1 (unnamed) has no attribute 'comm_type'; {AGAIN}",
    ),
    "an unknown collective": (
        [[together(1, comm_type=77)]],
        f"x.0.et: node 1 (unnamed) has comm_type 77, which is unknown; {AGAIN}",
    ),
    "an unknown type": (
        [[node(1, 9)]],
        "x.0.et: node 1 (unnamed) is of type 9, which this version does not read; export it with "
        "a Chakra of schema 0.0.4",
    ),
    "an attribute that comes twice": (
        [[twice()]],
        f"x.0.et: node 1 (unnamed) has attribute 'num_ops' twice; {AGAIN}",
    ),
    "a size in words": (
        [[together(1, comm_size="8 MB")]],
        f"x.0.et: node 1 (unnamed) has comm_size '8 MB', which is not a valid value; {AGAIN}",
    ),
    "a negative amount of work": (
        [[node(1, num_ops=-1)]],
        f"x.0.et: node 1 (unnamed) has num_ops -1, which is not a valid value; {AGAIN}",
    ),
    "a kind of ours that is none": (
        [[node(1, foretrace__kind="thinking")]],
        f"x.0.et: node 1 (unnamed) is of kind 'thinking', which does not exist; {AGAIN}",
    ),
    "a kind of ours that is empty": (
        [[node(1, foretrace__kind="")]],
        f"x.0.et: node 1 (unnamed) is of kind '', which does not exist; {AGAIN}",
    ),
    "a kind of ours that contradicts": (
        [[node(1, foretrace__kind="collective")]],
        "x.0.et: node 1 (unnamed) is of type COMP, and its own attributes say otherwise; export "
        "the trace again",
    ),
    "nodes that wait for each other": (
        [[node(1, waits=[2], name="a"), node(2, waits=[1], name="b")]],
        "x: op 0 and op 1 wait for each other; the trace is damaged, record or export it again",
    ),
    "a node that waits for itself": (
        [[node(1, waits=[1])]],
        "x: op 0 waits for itself; the trace is damaged, record or export it again",
    ),
    "a file of another schema": (
        "0.0.1",
        "x.0.et: has Chakra schema 0.0.1, but only 0.0.4 can be read; export it again with Chakra "
        "0.0.4",
    ),
}
WHOLE = b"\x07\n\x050.0.4\x0a\x08\x01\x12\x04abcd \x04"
FILES = {
    "an empty file": (b"", "x.0.et: is empty; export it again"),
    "a message of exabytes": (
        WHOLE[:8] + b"\xff\xff\xff\xff\xff\xff\xff\x7f",
        f"x.0.et: message 1 {MESSAGE}",
    ),
    "cut short": (
        WHOLE[:-3],
        f"x.0.et: message 1 {MESSAGE}",
    ),
    "no message": (
        b"\x05hello",
        f"x.0.et: message 0 {MESSAGE}",
    ),
    "gzip that breaks off": (
        gzip.compress(WHOLE)[:-9],
        "x.0.et: Compressed file ended before the end-of-stream marker was reached; copy or "
        "export the file again",
    ),
    "gzip of another kind": (
        b"\x1f\x8b\x07\0\0\0\0\0\0\3",
        "x.0.et: Unknown compression method; copy or export the file again",
    ),
    "JSON that breaks off": (
        b'{"version": "0.0.4"}\n{"id": }',
        f"x.0.et:2: column 8: Expecting value; {JSON}",
    ),
    "JSON that is not UTF-8": (
        b'{"version": "\xff"}',
        f"x.0.et:1: byte 0xff is not UTF-8; {JSON}",
    ),
    "JSON nested without end": (
        b'{"version": ' + b"[" * 100_000,
        f"x.0.et:1: nested too deeply; {JSON}",
    ),
    "a message that is a list": (
        b'{"version": "0.0.4"} []',
        f"x.0.et:1: a message is an object; {JSON}",
    ),
    "an unknown field": (
        b'{"version": "0.0.4"} {"ido": 1}',
        'x.0.et:1: Message type "ChakraProtoMsg.Node" has no field named "ido" at "Node"; ' + JSON,
    ),
}
TABLE = NODES | FILES


def put(folder, content):
    if isinstance(content, bytes):
        (folder / "x.0.et").write_bytes(content)
        return
    version, ranks = (content, [[]]) if isinstance(content, str) else ("0.0.4", content)
    for rank, nodes in enumerate(ranks):
        save_rank_file(
            folder / f"x.{rank}.et", message_classes().GlobalMetadata(version=version), nodes
        )


@pytest.fixture
def exported(refused, tmp_path):
    (tmp_path / "s.yaml").write_text(SCENARIO)
    words = ("trace", "export", "s.yaml", "--format", "chakra")
    return lambda: refused(*words).replace(f"{tmp_path}/", "")


def test_a_number_without_end_is_refused(exported, tmp_path):
    put(tmp_path, b'{"version": "0.0.4"} {"id": Infinity}')
    assert exported().startswith("x.0.et:1: ")  # the rest is protobuf's


@pytest.mark.parametrize("case", TABLE)
def test_broken_input_is_reported_with_its_place_and_a_cure(case, exported, tmp_path):
    content, message = TABLE[case]
    put(tmp_path, content)
    assert exported() == message


def test_a_rank_without_a_file_is_refused(exported, tmp_path):
    put(tmp_path, [[node(1)], [], [], [node(1)]])
    for rank in (1, 2):
        (tmp_path / f"x.{rank}.et").unlink()
    assert exported() == (
        "x: no file of ranks [1, 2]; add it: a Chakra trace needs one file per rank"
    )


def test_a_rank_beyond_all_jobs_is_refused_at_once(exported, tmp_path):
    put(tmp_path, [[node(1)]])
    (tmp_path / "x.0.et").rename(tmp_path / "x.99999999999.et")
    assert exported() == (
        "x: no file of ranks [0, 1, 2, 3, 4]; add it: a Chakra trace needs one file per rank"
    )
