"""Signature: the text that identifies equal work, ``kind:name dtype[shape] …``.

::

    signature = kind ":" name { " " operand }
    operand   = dtype "[" [ size { "x" size } ] "]"

Examples: ``compute:aten::mm bf16[4096x1024] bf16[1024x512]``, ``collective:all-reduce
fp32[1000]``. The name is free text (kernel names contain spaces and colons); operands are parsed
from the end. Tables, recordings and drivers use the text as a key; models read its parts.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

WIDTH: dict[str, float] = {  # bytes of one element
    "fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "fp8_e5m2": 1,
    "fp4": 0.5,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
    "complex64": 8, "complex128": 16,
}  # fmt: skip

COLLECTIVES = (
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce", "gather",
    "scatter", "barrier",
)  # fmt: skip

_DTYPE, _SHAPE = "|".join(WIDTH), r"(?:\d+(?:x\d+)*)?"
_OPERAND = re.compile(rf"({_DTYPE})\[({_SHAPE})\]")
_WHOLE = re.compile(rf"([a-z]+):(.*?)((?: (?:{_DTYPE})\[{_SHAPE}\])*)", re.DOTALL)


@dataclass(frozen=True)
class Operand:
    """Tensor operand of an op: element type and shape; a scalar has an empty shape."""

    dtype: str
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.dtype}[{'x'.join(map(str, self.shape))}]"

    @property
    def bytes(self) -> int:
        """Size in memory in B; an odd number of 4-bit elements is rounded up to a full byte.

        >>> Operand("bf16", (4, 8)).bytes, Operand("fp4", (3, 3)).bytes
        (64, 5)
        """
        return math.ceil(WIDTH[self.dtype] * math.prod(self.shape))


@dataclass(frozen=True)
class Signature:
    """Parsed signature: kind, name and operands; ``str()`` gives the text.

    Examples
    --------
    >>> str(Signature("compute", "aten::mm", (Operand("bf16", (4, 8)), Operand("bf16", (8, 2)))))
    'compute:aten::mm bf16[4x8] bf16[8x2]'
    """

    kind: str
    name: str
    operands: tuple[Operand, ...] = ()

    def __str__(self) -> str:
        return " ".join([f"{self.kind}:{self.name}", *map(str, self.operands)])

    @property
    def dtype(self) -> str:
        """Element type of the first operand; "" without operands."""
        return self.operands[0].dtype if self.operands else ""

    @property
    def bytes(self) -> int:
        """Total size of all operands in B.

        >>> parse_signature("compute:aten::mm bf16[4x8] bf16[8x2]").bytes
        96
        """
        return sum(o.bytes for o in self.operands)

    @property
    def op(self) -> str:
        """Name of the op without attributes.

        >>> parse_signature("compute:aten::convolution stride=2 fp32[1x3x8x8]").op
        'aten::convolution'
        """
        return self.name.split(" ", 1)[0]

    @property
    def bare_name(self) -> str:
        """Name of the op, or of a C++ kernel without result type, arguments and unnamed namespaces.

        >>> parse_signature("compute:void my::(anonymous namespace)::gemm<float>(int)").bare_name
        'my::gemm'
        """
        if not self.name.startswith("void "):
            return self.op
        return re.split(r"[<(]", self.name[5:].replace("(anonymous namespace)::", ""))[0]

    @property
    def attributes(self) -> dict[str, str]:
        """Attributes after the name, ``key=value``; a word without ``=`` has the value "".

        >>> parse_signature("send:rdma-write depth=16 qps=2 uint8[64]").attributes
        {'depth': '16', 'qps': '2'}
        """
        pairs = (word.partition("=") for word in self.name.split()[1:])
        return {key: value for key, _, value in pairs}


@lru_cache(maxsize=1 << 16)
def parse_signature(text: str) -> Signature:
    """Parse the text of a signature.

    Raises
    ------
    ValueError
        The text has no kind.

    Examples
    --------
    >>> parse_signature("compute:void gemm<float, 4>(int) fp32[2x3] int64[]").operands
    (Operand(dtype='fp32', shape=(2, 3)), Operand(dtype='int64', shape=()))
    >>> parse_signature("compute:mm").name
    'mm'
    """
    found = _WHOLE.fullmatch(text)
    if found is None:
        raise ValueError(f"signature {text!r}: has no kind; write it like 'compute:aten::mm'")
    kind, name, operands = found.groups()
    return Signature(kind, name, tuple(_parse_operand(*o) for o in _OPERAND.findall(operands)))


def _parse_operand(dtype: str, shape: str) -> Operand:
    return Operand(dtype, tuple(int(s) for s in shape.split("x") if s))
