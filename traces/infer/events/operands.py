"""Operands of recorded operators: shapes and element types, parsed from the profiler's texts."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from math import prod
from typing import Any

from ....sim.facts.signature import Operand

DTYPES = {  # as PyTorch's profilers write them, in lower case
    "float": "fp32", "double": "fp64", "half": "fp16", "c10::half": "fp16",
    "bfloat16": "bf16", "c10::bfloat16": "bf16",
    "float8_e4m3fn": "fp8", "c10::float8_e4m3fn": "fp8",
    "float8_e4m3fnuz": "fp8", "c10::float8_e4m3fnuz": "fp8",
    "float8_e5m2": "fp8_e5m2", "c10::float8_e5m2": "fp8_e5m2",
    "long": "int64", "long int": "int64", "long long": "int64", "int64_t": "int64",
    "int": "int32", "short": "int16", "short int": "int16",
    "char": "int8", "signed char": "int8", "byte": "uint8", "unsigned char": "uint8",
    "bool": "bool", "c10::complex<float>": "complex64", "complexfloat": "complex64",
    "c10::complex<double>": "complex128", "complexdouble": "complex128",
}  # fmt: skip


LIST = "TensorList"
ELEMENTS = re.compile(  # among the parameters of a kernel's template
    r"OpaqueType<(\d+)|\b(float|double|c10::Half|c10::BFloat16|unsigned char|signed char|bool)\b"
    r"|(?<!unsigned )\b(long|int|short)\b"
)
OPAQUE = {"1": "uint8", "2": "int16", "4": "int32", "8": "int64", "16": "complex128"}


@lru_cache(maxsize=1 << 16)
def parse_operands(shapes: str, dtypes: str, element: str = "") -> tuple[Operand, ...]:
    """Tensor operands of an operator, in call order, parsed from the profiler's texts.

    Parameters
    ----------
    shapes, dtypes : texts as the profiler writes them, JSON
    element : element type of tensors in lists, which profilers do not write (``trace capture
        --meta`` does, in brackets); "" leaves lists out. A list is one operand of the total size of
        its tensors.

    Examples
    --------
    >>> parse_operands("[[64, 128], [], [128]]", '["float", "Scalar", "c10::Half"]')
    (Operand(dtype='fp32', shape=(64, 128)), Operand(dtype='fp16', shape=(128,)))
    >>> parse_operands("[[[4, 8], [2, 8]], []]", '["TensorList", "Scalar"]', "bf16")
    (Operand(dtype='bf16', shape=(48,)),)
    >>> parse_operands("", "")
    ()
    """
    if not shapes or not dtypes:
        return ()
    pairs = zip(_parse_json_list(shapes), _parse_json_list(dtypes), strict=False)
    return tuple(o for shape, text in pairs for o in _parse_operand(shape, str(text), element))


def _parse_operand(shape: Any, text: str, element: str) -> tuple[Operand, ...]:
    """Operand of one input, a tensor or a list of tensors; empty for other inputs."""
    if text.startswith(LIST):
        element = DTYPES.get(text.removeprefix(LIST).strip("[]").lower(), element)
        told = isinstance(shape, list) and bool(shape) and all(map(_is_shape, shape))
        return (Operand(element, (sum(map(prod, shape)),)),) if told and element else ()
    dtype = DTYPES.get(text.lower())
    return (Operand(dtype, tuple(shape)),) if dtype and _is_shape(shape) else ()


@lru_cache(maxsize=1 << 12)
def kernel_element_type(kernel: str) -> str:
    """Element type in a kernel's name, the first one of its template arguments.

    "" if there is none.

    >>> kernel_element_type("void at::native::CatArrayBatchedCopy<float, unsigned int, 2>(float*)")
    'fp32'
    >>> kernel_element_type("void CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 3>(int)")
    'int16'
    >>> kernel_element_type("Cijk_Alik_Bljk")
    ''
    """
    found = ELEMENTS.search(kernel.partition("<")[2])
    if found is None:
        return ""
    opaque, number, whole = found.groups()
    return OPAQUE.get(opaque, "") if opaque else DTYPES[(number or whole).lower()]


def _parse_json_list(text: str) -> list[Any]:
    """Parse a JSON list; empty if the text is not a list."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return []
    return value if isinstance(value, list) else []


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(v, int) for v in value)
