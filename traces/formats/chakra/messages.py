"""Protobuf messages of a Chakra execution trace (schema version 0.0.4).

Field numbers and names are those of MLCommons Chakra, ``schema/protobuf/et_def.proto``. They are
declared here instead of generated, because generated code runs only with the protobuf release that
generated it.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ....sim.errors import TraceError

if TYPE_CHECKING:
    from google.protobuf.message import Message

VERSION = "0.0.4"
PACKAGE = "ChakraProtoMsg"


class NodeType(IntEnum):
    """Type of a node: what it does."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


COLLECTIVES = {
    0: "all-reduce", 1: "reduce", 2: "all-gather", 3: "gather", 4: "scatter", 5: "broadcast",
    6: "all-to-all", 7: "reduce-scatter", 8: "reduce-scatter", 9: "barrier",
}  # fmt: skip
"""Name of a collective by ``comm_type``; 8 is a reduce-scatter of equal blocks."""

SCALARS = (
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64",
    "fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes",
)  # fmt: skip
"""Types of an attribute; each has a field for one value and one for a list, from 3 on."""

FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "GlobalMetadata": {"version": (1, "string"), "attr": (2, "AttributeProto*")},
    "IOInfo": {"values": (1, "string"), "shapes": (2, "string"), "types": (3, "string")},
    "Node": {
        "id": (1, "uint64"),
        "name": (2, "string"),
        "type": (3, "NodeType"),
        "ctrl_deps": (4, "uint64*"),
        "data_deps": (5, "uint64*"),
        "start_time_micros": (6, "uint64"),
        "duration_micros": (7, "uint64"),
        "inputs": (8, "IOInfo"),
        "outputs": (9, "IOInfo"),
        "attr": (10, "AttributeProto*"),
    },
}


@cache
def message_classes() -> Any:
    """Object with the protobuf classes ``GlobalMetadata``, ``Node`` and ``AttributeProto``.

    Examples
    --------
    >>> node = message_classes().Node(id=3, name="mm", type=NodeType.COMP)
    >>> node.SerializeToString().hex()
    '080312026d6d1804'
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="et_def", package=PACKAGE, syntax="proto3")
    kinds = file.enum_type.add(name="NodeType")
    for kind in NodeType:
        kinds.value.add(name=f"{kind.name}_NODE", number=kind)
    _declare_attribute_message(file)
    for message, fields in FIELDS.items():
        descriptor = file.message_type.add(name=message)
        for name, (number, kind_name) in fields.items():
            _declare_field(descriptor, name, number, kind_name)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ("GlobalMetadata", "Node", "AttributeProto")
    descriptors = {n: pool.FindMessageTypeByName(f"{PACKAGE}.{n}") for n in names}
    return SimpleNamespace(
        **{n: message_factory.GetMessageClass(d) for n, d in descriptors.items()}
    )


def _declare_attribute_message(file: Any) -> None:
    """Declare ``AttributeProto``: a name, and one value or a list of one of fifteen types."""
    proto = file.message_type.add(name="AttributeProto")
    _declare_field(proto, "name", 1, "string")
    _declare_field(proto, "doc_string", 2, "string")
    proto.oneof_decl.add(name="value")
    for i, scalar in enumerate(SCALARS):
        values = file.message_type.add(name=f"{scalar.capitalize()}List")
        _declare_field(values, "values", 1, f"{scalar}*")
        _declare_field(proto, f"{scalar}_val", 3 + 2 * i, scalar).oneof_index = 0
        _declare_field(proto, f"{scalar}_list", 4 + 2 * i, values.name).oneof_index = 0


def _declare_field(message: Any, name: str, number: int, kind: str) -> Any:
    """Declare one field of a message; a star after the type makes it repeated."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

    one = kind.removesuffix("*")
    label = Field.LABEL_OPTIONAL if one == kind else Field.LABEL_REPEATED
    field = message.field.add(name=name, number=number, label=label)
    if one in SCALARS:
        field.type = Field.Type.Value(f"TYPE_{one.upper()}")
    else:
        field.type = Field.TYPE_ENUM if one == "NodeType" else Field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{one}"
    return field


Value = float | int | str | bool
_FIELD_OF = {bool: "bool_val", int: "int64_val", float: "double_val", str: "string_val"}


def make_attribute(name: str, value: Value) -> Message:
    """Build an attribute message; integers become int64, which ASTRA-sim requires for sizes."""
    message: Message = message_classes().AttributeProto(
        name=name, **{_FIELD_OF[type(value)]: value}
    )
    return message


def attribute_values(message: Any) -> dict[str, Any]:
    """Values of a message's attributes, by name.

    Raises
    ------
    TraceError
        A name occurs twice.
    """
    values: dict[str, Any] = {}
    for one in message.attr:
        which = one.WhichOneof("value")
        value: Any = None if which is None else getattr(one, which)
        if one.name in values:
            raise TraceError(f"has attribute '{one.name}' twice; export the trace again")
        values[one.name] = list(value.values) if which and which.endswith("_list") else value
    return values
