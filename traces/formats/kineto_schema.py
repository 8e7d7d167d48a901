"""Schema of the fields that are read from a Kineto (Chrome) trace, as msgspec structs.

Unknown fields are skipped. Times stay text (``Raw``), because a float would round them.
"""

from __future__ import annotations

from msgspec import UNSET, Raw, Struct, UnsetType, field

NONE, ZERO = Raw(b""), Raw(b"0")
Number = int | str | None  # some writers quote their numbers


class KinetoArgs(Struct, frozen=True, gc=False):
    """``args`` of an event; each kind of event uses its own group of fields."""

    correlation: Number = -1
    external: Number = field(default=-1, name="External id")
    external_old: Number = field(default=-1, name="external id")
    connection: Number = field(default=-1, name="connection_id")  # Ascend
    stream: Number = -1
    stream_id: Number = field(default=-1, name="Stream Id")  # Ascend
    device: Number = -1
    bytes: Number = 0
    graph_node: Number = field(default=-1, name="graph node id")

    shapes: Raw = field(default=NONE, name="Input Dims")
    shapes_old: Raw = field(default=NONE, name="Input dims")
    dtypes: Raw = field(default=NONE, name="Input type")
    scalars: Raw = field(default=NONE, name="Concrete Inputs")
    sequence: Number = field(default=-1, name="Sequence number")
    forward: Number = field(default=-1, name="Fwd thread id")
    function: Number = field(default=-1, name="Record function id")
    stack: str | None = field(default=None, name="Call stack")
    module: str | None = field(default=None, name="Module Hierarchy")
    python: Number = field(default=-1, name="Python id")
    caller: Number = field(default=-1, name="Python parent id")

    collective: str | None = field(default=None, name="Collective name")
    element: str | None = field(default=None, name="dtype")
    sent: Number = field(default=0, name="In msg nelems")
    received: Number = field(default=0, name="Out msg nelems")
    sent_splits: Raw = field(default=NONE, name="In split size")
    size: Number = field(default=-1, name="Group size")
    group: str | None = field(default=None, name="Process Group Name")
    ranks: Raw = field(default=NONE, name="Process Group Ranks")
    number: Number = field(default=-1, name="Seq")

    sync: str | None = field(default=None, name="cuda_sync_kind")
    awaited_stream: Number = field(default=-1, name="wait_on_stream")
    awaited_record: Number = field(default=-1, name="wait_on_cuda_event_record_corr_id")

    memory: Number = field(default=0, name="Bytes")
    allocated: Number = field(default=0, name="Total Allocated")
    reserved: Number = field(default=0, name="Total Reserved")
    memory_device: Number = field(default=-1, name="Device Id")
    device_type: Number = field(default=-1, name="Device Type")
    address: Number = field(default=-1, name="Addr")

    name: Number = None  # of a thread or process, in metadata events
    labels: Number = None  # of a process
    rank: Number = None  # of a process


class KinetoEvent(Struct, gc=False):
    """One entry of ``traceEvents``."""

    ph: str
    cat: str | None = None
    name: str | None = None
    pid: Number = None
    tid: Number = None
    ts: Raw = NONE
    dur: Raw = ZERO
    args: KinetoArgs = KinetoArgs()


class KinetoGroup(Struct):
    """One process group of ``distributedInfo``."""

    pg_name: str = ""
    ranks: list[int] = []
    backend_config: str = ""


class KinetoDistributed(Struct):
    """``distributedInfo`` of a file: rank, number of ranks, backend and process groups."""

    backend: str = ""
    rank: int = -1
    world_size: int = 0
    pg_config: list[KinetoGroup] | None = None


class KinetoDevice(Struct):
    """One entry of ``deviceProperties``."""

    name: str = ""


class KinetoMeta(Struct):
    """``foretrace`` section that ``trace capture`` adds to a file.

    Its ``meta`` has facts about a step that was recorded without running it.
    """

    meta: Raw = NONE


class KinetoDocument(Struct):
    """Complete file, or one chunk of it."""

    events: list[KinetoEvent] | UnsetType = field(default=UNSET, name="traceEvents")
    base: int = field(default=0, name="baseTimeNanoseconds")
    distributed: KinetoDistributed | None = field(default=None, name="distributedInfo")
    devices: list[KinetoDevice] = field(default_factory=list, name="deviceProperties")
    own: KinetoMeta | None = field(default=None, name="foretrace")
    nodes: Raw = NONE  # what an execution trace has instead
