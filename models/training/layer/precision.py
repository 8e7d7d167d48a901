"""Precision: the element type of each class of tensors, and the scales of those of few bits."""

from __future__ import annotations

from dataclasses import dataclass

from ....sim.facts.signature import WIDTH

SCALED = ("fp8", "fp4")  # types of so few bits that their numbers are scaled
SCALE_WIDTH = {"fp32": 4, "e4m3": 1, "e8m0": 1}  # B of a scale
COPIES = 2  # copies of quantized operands: by rows and by columns, the summed dimensions


@dataclass(frozen=True)
class Scales:
    """Scales of numbers of few bits.

    Parameters
    ----------
    block : numbers of a row, or of a column, that share a scale; 0 for one of a whole tensor
    dtype : of each
    square : whether of weights block x block numbers share one
    current : whether the largest number of a tensor is looked for before it is scaled; else its
        scale is of steps before, or of blocks, which are at hand

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
        """B of scales for each number; nothing where one is of a whole tensor."""
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
    weights, activations : as they are stored
    products : as matrix products of layers take their operands; attention, router and output layer
        take those of ``activations``
    gradients : as they are added up over micro-batches
    communication : of gradients on the network
    dispatch : of tokens on their way to experts, and of gradients on theirs; that of
        ``activations`` unless said.  What comes back from experts is in that of ``activations``
    frozen : weights that are not trained, as they are stored; that of ``weights`` unless said
    master, moments : of the optimizer's own copy of the weights, and of its two moments; weights in
        the element type of ``master`` have no such copy
    scales : of whatever is of a type in ``SCALED``

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
        """Element type of weights that are not trained.

        >>> PRECISIONS["fp8"].of_frozen
        'bf16'
        """
        return self.frozen or self.weights

    @property
    def to_experts(self) -> str:
        """Element type of what is sent to experts.

        >>> PRECISIONS["bf16"].to_experts
        'bf16'
        """
        return self.dispatch or self.activations

    def width(self, dtype: str, weights: bool = False) -> float:
        """B of a number of a type, with its share of a scale.

        Parameters
        ----------
        weights : whether it is one of the weights

        Examples
        --------
        >>> PRECISIONS["nvfp4"].width("fp4"), PRECISIONS["mxfp4"].width("fp4")
        (0.5625, 0.53125)
        """
        own = WIDTH[dtype]
        return own + self.scales.bytes_each(weights) if dtype in SCALED else own

    @property
    def weight_bytes(self) -> float:
        """B of a weight as it is stored, and as products take it where that is otherwise.

        >>> PRECISIONS["bf16"].weight_bytes, PRECISIONS["mxfp8"].weight_bytes
        (2, 4.0625)
        """
        return self._bytes_stored_in(self.weights)

    @property
    def frozen_bytes(self) -> float:
        """B of a weight that is not trained, likewise.

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
        """Bytes of the optimizer for each parameter: master weights and two moments."""
        return WIDTH[self.master] * self.has_master + 2 * self.width(self.moments)

    @property
    def host_bytes(self) -> float:
        """Bytes of the optimizer for each parameter where it is the host's, with a copy of all."""
        return WIDTH[self.master] + 2 * self.width(self.moments)

    @property
    def has_master(self) -> bool:
        """Whether the optimizer keeps a copy of the weights of its own."""
        return self.weights != self.master

    @property
    def state_bytes(self) -> float:
        """Bytes for each parameter: weight, gradient, optimizer."""
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
