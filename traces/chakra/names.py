"""Attributes of a node: those that ASTRA-sim reads, and ours, for what Chakra has no field.

Ours begin with ``foretrace.``; other readers pass over them, and :mod:`.read` needs none.
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
ITERATION = OURS + "iteration"
EXACT_FLOP = OURS + "flop"  # where it is no integer
EXACT_BYTES = OURS + "bytes"
DURATION = OURS + "duration_s"  # Chakra's own is in whole microseconds
RELEASE = OURS + "release_s"
PEER = OURS + "peer"  # of a receive
SIGNATURE = OURS + "signature"
MODULE, CODE = OURS + "module", OURS + "source"  # of the label
IMPLIED = OURS + "implied"  # a receive that only carries a dependency to the other rank
GRAPH = OURS + "graph"  # of the metadata: name, streams, facts and groups, as JSON
