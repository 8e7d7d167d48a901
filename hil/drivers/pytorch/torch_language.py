"""Builders for ops of language models that have no kernel of their own in torch.

``inductor::NAME`` is the single kernel that ``torch.compile`` generates. ``torch::fused_experts``
are the two grouped GEMMs of a mixture-of-experts layer and the ops between them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from types import FunctionType
from typing import Any

from .torch_tensors import Builder, Call, TorchOp

NUMBERS = count()


def build_rms_norm(op: TorchOp) -> Call:
    """RMS norm over the last dimension, as one kernel."""
    x, weight = op.operands(2)[:2]
    norm = op.torch.nn.functional.rms_norm

    def rms_norm(x: Any, weight: Any) -> Any:
        return norm(x, (x.shape[-1],), weight)

    return compiled(op, rms_norm, x, weight)


def build_silu_and_mul(op: TorchOp) -> Call:
    """SiLU of the first half of the input (the gate) times the second half."""
    (x,) = op.operands(1)[:1]
    silu = op.torch.nn.functional.silu

    def silu_and_mul(x: Any) -> Any:
        gate, value = x.chunk(2, dim=-1)
        return silu(gate) * value

    return compiled(op, silu_and_mul, x)


def build_rotary_embedding(op: TorchOp) -> Call:
    """Rotary embedding of queries and keys, each of shape (tokens, heads x head width).

    The op's attribute ``head`` gives the width of one head.
    """
    query, key = op.operands(2)[:2]
    head = int(op.parts.attributes.get("head", 128))
    angles = op.torch.rand((query.shape[0], 1, head // 2), device=op.device)
    cosine, sine = (f(angles).to(query.dtype) for f in (op.torch.cos, op.torch.sin))
    cat = op.torch.cat

    def rotary_embedding(query: Any, key: Any) -> Any:
        turned = []
        for x in (query, key):
            one, other = x.view(x.shape[0], -1, head).chunk(2, dim=-1)
            two = (one * cosine - other * sine, other * cosine + one * sine)
            turned.append(cat(two, dim=-1))
        return turned

    return compiled(op, rotary_embedding, query, key)


def build_fused_experts(op: TorchOp) -> Call:
    """Mixture-of-experts layer: two grouped GEMMs with a gate between, and the sum over experts.

    The four operands are as in vLLM: tokens, weights of the first and of the second GEMM, and a
    tensor of shape (tokens, experts per token). Tokens are spread evenly over the experts.
    """
    x, first, second, chosen = op.operands(4)[:4]
    torch, every, inner = op.torch, first.shape[0], second.shape[2]
    if first.shape[1] != 2 * inner:
        raise op.unsupported_error(
            "the first weight has no gate; give it twice as many rows as the second has columns"
        )
    pairs = chosen.numel()
    spread = torch.arange(pairs, device=op.device) % every
    order = torch.argsort(spread)
    rows = order // chosen.shape[1]
    ends = torch.cumsum(torch.bincount(spread, minlength=every), 0).to(torch.int32)
    up, down = first.transpose(1, 2), second.transpose(1, 2)
    silu, product = torch.nn.functional.silu, torch._grouped_mm

    def fused_experts() -> Any:
        both = product(x.index_select(0, rows), up, offs=ends)
        inside = silu(both[:, :inner]) * both[:, inner:]
        out = product(inside, down, offs=ends)
        return torch.zeros_like(x).index_add_(0, rows, out)

    return fused_experts


def compiled(op: TorchOp, function: Callable[..., Any], *operands: Any) -> Call:
    """Call of a function that torch compiles for these shapes only.

    Each op gets its own compiled code, because torch silently stops recompiling a function after
    eight different shapes (``recompile_limit``).
    """
    own = FunctionType(
        function.__code__.replace(co_name=f"{function.__name__}_{next(NUMBERS)}"),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    does = op.torch.compile(own, dynamic=False, fullgraph=True)
    return lambda: does(*operands)


LANGUAGE_OPS: dict[str, Builder] = {
    "compute:inductor::rms_norm": build_rms_norm,
    "compute:inductor::silu_and_mul": build_silu_and_mul,
    "compute:inductor::rotary_embedding": build_rotary_embedding,
    "compute:torch::fused_experts": build_fused_experts,
}
