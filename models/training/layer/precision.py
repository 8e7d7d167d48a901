"""Precision: the element type of each class of tensors, and scales of low-precision types."""

from __future__ import annotations

from dataclasses import dataclass

from ....sim.facts.signature import WIDTH

SCALED = ("fp8", "fp4")  # types of so few bits that their numbers are scaled
SCALE_WIDTH = {"fp32": 4, "e4m3": 1, "e8m0": 1}  # B of a scale
COPIES = 2  # copies of quantized operands: by rows and by columns, the summed dimensions


@dataclass(frozen=True)
class Scales:
    """Scaling factors of low-precision numbers.

    Parameters
    ----------
    block : elements of a row or column that share a scale; 0 for one scale per tensor
    dtype : element type of the scales
    square : True if block x block weights share a scale
    current : True if the tensor's maximum is computed before it is scaled (current scaling);
        otherwise the scale comes from earlier steps or from blocks

    Examples
    --------
    >>> MICROSCALING.bytes_each(), Scales(128, "fp32", square=True).bytes_each(weights=True)
    (0.03125, 0.000244140625)
    """

    block: int = 0
    dtype: str = "fp32"
    square: bool = False
    current: bool = False

    def bytes_each(self, weights: bool = False) -> float:
        """Bytes of scales per element; 0 if there is one scale per tensor."""
        if not self.block:
            return 0.0
        return SCALE_WIDTH[self.dtype] / self.block ** (2 if weights and self.square else 1)


MICROSCALING = Scales(32, "e8m0")
"""Open Compute Project, OCP Microscaling Formats (MX) specification 1.0 (2023), table 1."""
NVFP4 = Scales(16, "e4m3", current=True)
"""Blocks of 16, and one fp32 scale per tensor from its maximum: NVIDIA 2025,
Pretraining Large Language Models with NVFP4, arXiv:2509.25149, sections 2 and 4."""


@dataclass(frozen=True)
class Precision:
    """Element type of each class of tensors.

    Parameters
    ----------
    weights, activations : element types of stored weights and activations
    products : element type of GEMM operands in layers; attention, router and output layer use that
        of ``activations``
    gradients : element type in which gradients accumulate over micro-batches
    communication : element type of gradients on the network
    dispatch : element type of tokens sent to experts, and of their gradients; default: that of
        ``activations``, which is always the type of expert outputs
    frozen : element type of stored frozen weights; default: that of ``weights``
    master, moments : element types of the optimizer's master weights, and of its two moments;
        weights stored in the type of ``master`` have no master copy
    scales : scaling factors of types in ``SCALED``

    Examples
    --------
    >>> PRECISIONS["bf16"].optimizer_bytes, PRECISIONS["bf16"].state_bytes
    (12, 18)
    """

    weights: str = "bf16"
    activations: str = "bf16"
    products: str = "bf16"
    gradients: str = "fp32"
    communication: str = "fp32"
    master: str = "fp32"
    moments: str = "fp32"
    dispatch: str = ""
    frozen: str = ""
    scales: Scales = Scales()

    @property
    def types(self) -> tuple[str, ...]:
        """Element types of all classes.

        >>> sorted(set(PRECISIONS["nvfp4"].types))
        ['bf16', 'fp32', 'fp4']
        """
        return (self.weights, self.activations, self.products, self.gradients, self.communication,
                self.to_experts, self.master, self.moments, self.of_frozen)  # fmt: skip

    @property
    def of_frozen(self) -> str:
        """Element type of frozen weights.

        >>> PRECISIONS["fp8"].of_frozen
        'bf16'
        """
        return self.frozen or self.weights

    @property
    def to_experts(self) -> str:
        """Element type of data sent to experts.

        >>> PRECISIONS["bf16"].to_experts
        'bf16'
        """
        return self.dispatch or self.activations

    def width(self, dtype: str, weights: bool = False) -> float:
        """Bytes per element of a type, including its share of a scale.

        Parameters
        ----------
        weights : True for elements of weights

        Examples
        --------
        >>> PRECISIONS["nvfp4"].width("fp4"), PRECISIONS["mxfp4"].width("fp4")
        (0.5625, 0.53125)
        """
        own = WIDTH[dtype]
        return own + self.scales.bytes_each(weights) if dtype in SCALED else own

    @property
    def weight_bytes(self) -> float:
        """Bytes per weight: the stored weight, plus its copies in the GEMM type, if any.

        >>> PRECISIONS["bf16"].weight_bytes, PRECISIONS["mxfp8"].weight_bytes
        (2, 4.0625)
        """
        return self._bytes_stored_in(self.weights)

    @property
    def frozen_bytes(self) -> float:
        """Bytes per frozen weight: the stored weight, plus its copies in the GEMM type, if any.

        >>> Precision(products="fp8", frozen="fp8").frozen_bytes
        2.0
        """
        return self._bytes_stored_in(self.of_frozen)

    def _bytes_stored_in(self, dtype: str) -> float:
        stored, taken = (self.width(t, weights=True) for t in (dtype, self.products))
        copies = COPIES if self.products in SCALED else 1
        return stored + taken * (copies - (self.products == dtype))

    @property
    def optimizer_bytes(self) -> float:
        """Bytes per parameter of the optimizer: master weights and two moments."""
        return WIDTH[self.master] * self.has_master + 2 * self.width(self.moments)

    @property
    def host_bytes(self) -> float:
        """Bytes per parameter of an offloaded optimizer, which always has a copy of the weights."""
        return WIDTH[self.master] + 2 * self.width(self.moments)

    @property
    def has_master(self) -> bool:
        """True if the optimizer keeps master weights."""
        return self.weights != self.master

    @property
    def state_bytes(self) -> float:
        """Bytes per parameter of weight, gradient and optimizer state."""
        stored = self.width(self.weights, weights=True)
        return stored + WIDTH[self.gradients] + self.optimizer_bytes


PRECISIONS = {
    "bf16": Precision(),
    "fp16": Precision("fp16", "fp16", "fp16", "fp16", "fp16"),
    "fp8": Precision(products="fp8"),
    "mxfp8": Precision(products="fp8", scales=MICROSCALING),
    "nvfp4": Precision(products="fp4", scales=NVFP4),
    "mxfp4": Precision(products="fp4", scales=MICROSCALING),
    "fp32": Precision("fp32", "fp32", "fp32"),
}
"""``bf16``: Megatron-LM's, gradients in fp32; ``fp16``: as ZeRO counts it (Rajbhandari et al. 2020,
arXiv:1910.02054, section 3.1: 16 bytes per parameter); ``fp8``: Transformer Engine's, weights kept
in bf16, one scale per tensor from earlier steps (``DelayedScaling``); ``mxfp8``, ``nvfp4``,
``mxfp4``: the same with block scales; ``fp32``: no copy of the weights, 16 bytes per
parameter."""
