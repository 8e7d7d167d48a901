"""Attribute names of Chakra nodes: those that ASTRA-sim reads, and foretrace's own.

foretrace's own names begin with ``foretrace.`` and hold what Chakra has no field for. Other readers
ignore them, and :mod:`.reader` does not require them.
"""

from __future__ import annotations

CPU = "is_cpu_op"
FLOP = "num_ops"
TENSOR = "tensor_size"
COMM_TYPE, COMM_SIZE, GROUP = "comm_type", "comm_size", "pg_name"
SOURCE, TARGET, TAG = "comm_src", "comm_dst", "comm_tag"

OURS = "foretrace."
KIND = OURS + "kind"
STREAM = OURS + "stream"
PERIOD = OURS + "iteration"
EXACT_FLOP = OURS + "flop"  # where it is no integer
EXACT_BYTES = OURS + "bytes"
DURATION = OURS + "duration_s"  # Chakra's own is in whole microseconds
RELEASE = OURS + "release_s"
PEER = OURS + "peer"  # of a receive
SIGNATURE = OURS + "signature"
MODULE, CODE = OURS + "module", OURS + "source"  # of the label
IMPLIED = OURS + "implied"  # a receive that only carries a dependency to the other rank
GRAPH = OURS + "graph"  # of the metadata: name, streams, facts and groups, as JSON

NUMBER = (int, float)
EXPECTED: dict[str, tuple[type | tuple[type, ...], float, float]] = {
    CPU: (int, 0, 1),
    FLOP: (NUMBER, 0, 1e30),
    TENSOR: (NUMBER, 0, 1e30),
    COMM_TYPE: (int, 0, 2**31),
    COMM_SIZE: (NUMBER, 0, 1e30),
    GROUP: ((str, int), -(2**63), 2**64),
    SOURCE: (int, 0, 2**31 - 1),
    TARGET: (int, 0, 2**31 - 1),
    TAG: (int, -(2**63), 2**64),
    KIND: (str, 0, 0),
    STREAM: (int, 0, 2**31 - 1),
    PERIOD: (int, 0, 2**16 - 1),
    EXACT_FLOP: (NUMBER, 0, 1e30),
    EXACT_BYTES: (NUMBER, 0, 1e30),
    DURATION: (NUMBER, 0, 1e12),
    RELEASE: (NUMBER, 0, 1e12),
    PEER: (int, -1, 2**31 - 1),
    SIGNATURE: (str, 0, 0),
    MODULE: (str, 0, 0),
    CODE: (str, 0, 0),
    IMPLIED: (int, 0, 1),
}
"""Type, least and largest value of every attribute that is read."""


def value_problem(name: str, value: object) -> str:
    """Text that says what is wrong with an attribute's value; "" if it is valid.

    >>> value_problem(COMM_SIZE, "8 MB"), value_problem(STREAM, 3)
    ("has comm_size '8 MB', which is not a valid value", '')
    """
    kind, low, high = EXPECTED.get(name, (object, 0, 0))
    fits = isinstance(value, kind)
    if fits and isinstance(value, NUMBER):
        fits = name not in EXPECTED or low <= value <= high or value != value  # NaN: not known
    return "" if fits else f"has {name} {value!r}, which is not a valid value"
