"""Precision: the element type of each class of tensors."""

from __future__ import annotations

from dataclasses import dataclass

from ...sim.signature import WIDTH


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

    @property
    def optimizer_bytes(self) -> int:
        """Bytes of the optimizer for each parameter: master weights and two moments."""
        return WIDTH[self.master] * self.has_master + 2 * WIDTH[self.moments]

    @property
    def host_bytes(self) -> int:
        """Bytes of the optimizer for each parameter where it is the host's, with a copy of all."""
        return WIDTH[self.master] + 2 * WIDTH[self.moments]

    @property
    def has_master(self) -> bool:
        """Whether the optimizer keeps a copy of the weights of its own."""
        return self.weights != self.master

    @property
    def state_bytes(self) -> int:
        """Bytes for each parameter: weight, gradient, optimizer."""
        return WIDTH[self.weights] + WIDTH[self.gradients] + self.optimizer_bytes


PRECISIONS = {
    "bf16": Precision(),
    "fp16": Precision("fp16", "fp16", "fp16", "fp16", "fp16"),
    "fp8": Precision(products="fp8"),
    "fp32": Precision("fp32", "fp32", "fp32"),
}
"""``bf16``: Megatron-LM's, gradients in fp32; ``fp16``: as ZeRO counts it (Rajbhandari et al. 2020,
arXiv:1910.02054, section 3.1: 16 bytes a parameter); ``fp8``: Transformer Engine's, weights kept in
bf16; ``fp32``: no copy of the weights, 16 bytes a parameter."""
