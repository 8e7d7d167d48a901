"""Frames: what is written is read; what is too large, malformed or a pickle is not."""

import io
import pickle
from random import Random

import numpy as np
import pytest
from foretrace.hil.agent import protocol
from foretrace.hil.sample import Request, Sample
from foretrace.sim.errors import DriverFault, RecordingError
from hypothesis import given
from hypothesis import strategies as st


def read(frame: bytes):
    return protocol.unpack_frame(io.BytesIO(frame).read)


@given(st.lists(st.lists(st.floats(0, 1e12), max_size=20), max_size=4), st.text(max_size=20))
def test_a_frame_survives_encoding_and_decoding(lists, text):
    arrays = [np.array(one, np.float64) for one in lists]
    message, found = read(protocol.pack_frame({"text": text}, arrays))
    assert message == {"text": text}
    assert [a.tolist() for a in found] == [a.tolist() for a in arrays]


def test_samples_and_requests_survive_encoding_and_decoding():
    asked = [Request("host:idle", 2, "after", ("host:read uint8[64]",))]
    assert protocol.decode_requests(protocol.encode_requests(asked)) == asked
    sample = Sample(
        "host:idle", np.array([1.5, 2.5]), "cpu", flags=("throttled",), facts={"load": 1}
    )
    told, arrays = protocol.encode_samples([sample])
    message, arrays = read(protocol.pack_frame({"samples": told}, arrays))
    (found,) = protocol.decode_samples(message["samples"], arrays)
    assert found.ns.tolist() == [1.5, 2.5]
    assert (found.flags, found.facts) == (("throttled",), {"load": 1})


@pytest.mark.parametrize(
    ("text", "size"), [(protocol.MESSAGE + 1, 0), (0, protocol.ARRAYS + 1), (2**32 - 1, 2**63)]
)
def test_an_oversized_frame_is_refused_before_anything_is_read(text, size):
    head = io.BytesIO(protocol.HEAD.pack(protocol.MAGIC, text, size))
    with pytest.raises(DriverFault, match=r"^oversized: a frame of"):
        protocol.unpack_frame(head.read)
    assert head.read() == b""


def test_we_do_not_write_an_oversized_frame_either(monkeypatch):
    monkeypatch.setattr(protocol, "MESSAGE", 100)
    with pytest.raises(DriverFault, match=r"^oversized"):
        protocol.pack_frame({"text": "x" * 100})


def array_frame(data: bytes) -> bytes:
    text = b'{"arrays": [%d]}' % len(data)
    return protocol.HEAD.pack(protocol.MAGIC, len(text), len(data)) + text + data


def npy(array: np.ndarray, allow_pickle: bool = False) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=allow_pickle)
    return out.getvalue()


def claims(shape: str) -> bytes:
    """An array that says it is larger than it is."""
    good = npy(np.ones(1))
    return good.replace(b"(1,)", shape.encode()).ljust(len(good))


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps([1.0]),
        npy(np.array([{"a": 1}], object), allow_pickle=True),
        npy(np.ones((2, 2))),
        npy(np.ones(2, np.float32)),
        npy(np.ones(2, ">f8")),
        claims("(9,)"),
        npy(np.ones(2))[:-1],
        b"\x93NUMPY\x01\x00",
    ],
)
def test_an_array_that_is_not_plain_float64_is_refused(data):
    with pytest.raises(DriverFault, match=r"^protocol: an array"):
        read(array_frame(data))


@pytest.mark.parametrize(
    "text",
    [b"[]", b"{}", b"nonsense", b'{"arrays": [-8, 8]}', b'{"arrays": "x"}', b'{"arrays": [8]}'],
)
def test_a_malformed_message_is_refused(text):
    frame = protocol.HEAD.pack(protocol.MAGIC, len(text), 0) + text
    with pytest.raises(DriverFault, match=r"^protocol"):
        read(frame)


def test_ten_thousand_damaged_frames_are_refused_by_name_or_read():
    """Bytes of valid frames changed, cut, doubled: a DriverFault or the end, nothing else."""
    random = Random(7)
    asked = protocol.encode_requests([Request("host:idle", 2)])
    frames = [
        protocol.pack_frame({"verb": "timing", "requests": asked, "x": 1e300}, [np.ones(5)]),
        protocol.pack_frame({"verb": "open", "driver": "host", "spec": {"core": 1}}),
    ]
    refused = 0
    for _ in range(10_000):
        frame = bytearray(random.choice(frames))
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(frame))
            end = at + random.randint(0, 3)
            frame[at:end] = random.choice((random.randbytes(2), b"9", b"[", frame[:at]))
        try:
            read(bytes(frame))
        except (DriverFault, EOFError):
            refused += 1
    assert refused > 5000


def test_a_stream_that_ends_early_is_an_end():
    with pytest.raises(EOFError):
        read(protocol.pack_frame({"verb": "probe"})[:-1])


def test_errors_keep_their_kind_and_message():
    for error in (DriverFault("busy", "held"), RecordingError("damaged")):
        assert repr(protocol.decode_error(protocol.encode_error(error))) == repr(error)
    assert (
        str(protocol.decode_error(protocol.encode_error(KeyError("x")))) == "broken: KeyError: 'x'"
    )
