"""Operands of recorded operators: shapes and element types, read from the profiler's texts."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from ...sim.signature import Operand

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


@lru_cache(maxsize=1 << 16)
def parse_operands(shapes: str, dtypes: str) -> tuple[Operand, ...]:
    """Tensors among the inputs of an operator, in call order.

    Parameters
    ----------
    shapes, dtypes : as the profiler writes them, JSON

    Examples
    --------
    >>> parse_operands("[[64, 128], [], [128]]", '["float", "Scalar", "c10::Half"]')
    (Operand(dtype='fp32', shape=(64, 128)), Operand(dtype='fp16', shape=(128,)))
    >>> parse_operands("", "")
    ()
    """
    if not shapes or not dtypes:
        return ()
    pairs = zip(_parse_json_list(shapes), _parse_json_list(dtypes), strict=False)
    return tuple(
        Operand(dtype, tuple(shape))
        for shape, text in pairs
        if (dtype := DTYPES.get(str(text).lower())) and _is_shape(shape)
    )


def _parse_json_list(text: str) -> list[Any]:
    """A JSON list; empty where the text is none."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return []
    return value if isinstance(value, list) else []


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(v, int) for v in value)
