"""Torch op to be built from a signature, and its tensors.

Values are chosen so that in-place ops can be repeated without overflow or decay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ....sim.errors import DriverFault
from ....sim.facts.signature import Operand, Signature

Call = Callable[[], object]
DTYPES = {  # of a signature: of torch
    "fp64": "float64", "fp32": "float32", "tf32": "float32", "fp16": "float16",
    "bf16": "bfloat16", "fp8": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2",
    "int64": "int64", "int32": "int32", "int16": "int16", "int8": "int8", "uint8": "uint8",
    "bool": "bool",
}  # fmt: skip


@dataclass(frozen=True)
class TorchOp:
    """Torch op to be built from a signature.

    Parameters
    ----------
    torch : the torch module
    device : device of its tensors
    parts : parsed signature
    stride : stride of a convolution; 0 if unknown
    normal : True for floats that are normally distributed, in place of 0.5 to 1.5
    """

    torch: Any
    device: Any
    parts: Signature
    stride: int = 0
    normal: bool = False

    @property
    def tensors(self) -> list[Any]:
        """New tensor for each operand; integers are 0."""
        return [self.tensor(o) for o in self.parts.operands]

    def tensor(self, operand: Operand, device: Any = None) -> Any:
        """New tensor of one operand's shape and type; integers are 0.

        Parameters
        ----------
        device : device of the tensor; None for the op's device

        Raises
        ------
        DriverFault
            Torch does not support this element type on the device.
        """
        name = DTYPES.get(operand.dtype)
        if name is None or (operand.dtype == "tf32" and self.device.type != "cuda"):
            raise self.unsupported_error(f"torch has no {operand.dtype} on this device")
        dtype = torch_dtypes(self.torch)[name]
        where = self.device if device is None else device
        if operand.dtype in ("int64", "int32", "int16", "int8", "uint8", "bool"):
            return self.torch.zeros(operand.shape, dtype=dtype, device=where)
        if self.normal:
            return self.torch.randn(operand.shape, device=where, dtype=self.torch.float32).to(dtype)
        made = self.torch.rand(operand.shape, device=where, dtype=self.torch.float32) + 0.5
        return made.to(dtype)

    def unsupported_error(self, why: str) -> DriverFault:
        """Error that this op is unsupported, with the reason."""
        return DriverFault("unsupported", f"{self.parts}: {why}")

    def operands(self, count: int) -> list[Any]:
        """Tensors of all operands; DriverFault if there are fewer than ``count``."""
        if len(self.parts.operands) < count:
            raise self.unsupported_error(f"has {len(self.parts.operands)} operands, needs {count}")
        return self.tensors


def torch_dtypes(torch: Any) -> Mapping[str, Any]:
    """Torch's element types by name."""
    return {
        "float64": torch.float64, "float32": torch.float32, "float16": torch.float16,
        "bfloat16": torch.bfloat16, "int64": torch.int64, "int32": torch.int32,
        "int16": torch.int16, "int8": torch.int8, "uint8": torch.uint8, "bool": torch.bool,
        "float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2,
    }  # fmt: skip


Builder = Callable[[TorchOp], Call]
