"""Builders for layer ops: attention, convolution, normalisation, pooling, and their gradients."""

from __future__ import annotations

from typing import Any

from .torch_tensors import Call, TorchOp


def build_attention(op: TorchOp) -> Call:
    """Attention of query, key and value; several query heads may share a key head.

    It is causal unless ``causal=0`` is given or a single query attends to the keys of a cache.
    """
    return attention_call(op, *op.operands(3)[:3])


def attention_call(op: TorchOp, q: Any, k: Any, v: Any) -> Call:
    """Call of the attention program that torch chooses."""
    does = op.torch.nn.functional.scaled_dot_product_attention
    wanted: dict[str, bool] = {"is_causal": _is_causal(op)}
    if q.shape[-3] != k.shape[-3]:
        wanted["enable_gqa"] = True  # of torch 2.5 and later
    return lambda: does(q, k, v, **wanted)


def _is_causal(op: TorchOp) -> bool:
    queries = op.parts.operands[0].shape[-2]
    return op.parts.attributes.get("causal", "1") != "0" and queries > 1


def build_attention_backward(op: TorchOp) -> Call:
    """Gradients of attention by the CPU's flash kernel."""
    gradient, q, k, v = op.operands(4)[:4]
    aten = op.torch.ops.aten
    forward, backward = (
        aten._scaled_dot_product_flash_attention_for_cpu,
        aten._scaled_dot_product_flash_attention_for_cpu_backward,
    )
    causal = op.parts.attributes.get("causal", "1") != "0"
    out, stats = forward(q, k, v, 0.0, causal)
    return lambda: backward(gradient, q, k, v, out, stats, 0.0, causal)


def build_flash_attention(op: TorchOp) -> Call:
    """Flash attention on a GPU; causal unless ``causal=0`` is given or there is a single query."""
    q, k, v = op.operands(3)[:3]
    does, causal = op.torch.ops.aten._scaled_dot_product_flash_attention, _is_causal(op)
    return lambda: does(q, k, v, 0.0, causal)


def build_flash_attention_backward(op: TorchOp) -> Call:
    """Gradients of flash attention on a GPU; the forward pass runs once while building."""
    gradient, q, k, v = op.operands(4)[:4]
    aten = op.torch.ops.aten
    causal = op.parts.attributes.get("causal", "1") != "0"
    out, sums, *lengths, seed, offset, _ = aten._scaled_dot_product_flash_attention(
        q, k, v, 0.0, causal
    )
    does = aten._scaled_dot_product_flash_attention_backward
    return lambda: does(gradient, q, k, v, out, sums, *lengths, 0.0, causal, seed, offset)


def build_convolution(op: TorchOp) -> Call:
    """Convolution with padding of half the kernel size."""
    x, weight, *rest = op.operands(2)
    stride, padding = _stride(op), [s // 2 for s in weight.shape[2:]]
    bias = rest[0] if rest else None
    steps, ones, zeros = [stride] * len(padding), [1] * len(padding), [0] * len(padding)
    groups = x.shape[1] // weight.shape[1]
    does = op.torch.convolution
    return lambda: does(x, weight, bias, steps, padding, ones, False, zeros, groups)


def build_convolution_backward(op: TorchOp) -> Call:
    """Gradients of a convolution's input and weight; the stride is inferred from the shapes."""
    gradient, x, weight = op.operands(3)[:3]
    padding = [s // 2 for s in weight.shape[2:]]
    stride = strides_between(x.shape, weight.shape, gradient.shape)
    if not stride:
        raise op.unsupported_error(
            "no stride gives these shapes with padding of half the kernel; correct the shapes"
        )
    steps, ones, zeros = [stride] * len(padding), [1] * len(padding), [0] * len(padding)
    mask, does = [True, True, False], op.torch.ops.aten.convolution_backward
    return lambda: does(gradient, x, weight, None, steps, padding, ones, False, zeros, 1, mask)


def _stride(op: TorchOp) -> int:
    if not op.stride:
        raise op.unsupported_error(
            "the signature has no stride; write it as 'stride=2' after the name"
        )
    return op.stride


def strides_between(x: tuple[int, ...], weight: tuple[int, ...], out: tuple[int, ...]) -> int:
    """Stride of a convolution with padding of half the kernel size, inferred from shapes.

    0 if none fits.

    >>> strides_between((8, 3, 64, 64), (64, 3, 7, 7), (8, 64, 32, 32))
    2
    """
    for stride in (1, 2, 3, 4, 8, 14, 16, 32):
        sizes = [
            (n + 2 * (k // 2) - k) // stride + 1 for n, k in zip(x[2:], weight[2:], strict=True)
        ]
        if tuple(sizes) == tuple(out[2:]):
            return stride
    return 0


def build_batch_norm(op: TorchOp) -> Call:
    """Batch norm in training mode."""
    x, weight, bias, mean, variance = op.operands(5)[:5]
    does = op.torch.native_batch_norm
    return lambda: does(x, weight, bias, mean, variance, True, 0.1, 1e-5)


def build_batch_norm_backward(op: TorchOp) -> Call:
    """Gradients of batch norm's input, weight and bias."""
    gradient, x, weight, *rest = op.operands(5)
    mean, variance = rest[:2]
    saved = rest[2:4] or rest[:2]
    does = op.torch.ops.aten.native_batch_norm_backward
    mask = [True, True, True]
    return lambda: does(gradient, x, weight, mean, variance, *saved, True, 1e-5, mask)


def build_layer_norm(op: TorchOp) -> Call:
    """Layer norm over the last dimension."""
    x, weight, bias = op.operands(3)[:3]
    return lambda: op.torch.native_layer_norm(x, weight.shape, weight, bias, 1e-5)


def build_layer_norm_backward(op: TorchOp) -> Call:
    """Gradients of layer norm."""
    gradient, x, *_ = op.operands(2)
    width = [x.shape[-1]]
    weight, bias = (op.torch.ones(width, dtype=x.dtype, device=x.device) for _ in range(2))
    _, mean, scale = op.torch.native_layer_norm(x, width, weight, bias, 1e-5)
    does, mask = op.torch.ops.aten.native_layer_norm_backward, [True, True, True]
    return lambda: does(gradient, x, width, mean, scale, weight, bias, mask)


def build_max_pool(op: TorchOp) -> Call:
    """3x3 max pooling with stride 2."""
    (x,) = op.operands(1)[:1]
    does = op.torch.ops.aten.max_pool2d_with_indices
    return lambda: does(x, [3, 3], [2, 2], [1, 1])


def build_max_pool_backward(op: TorchOp) -> Call:
    """Gradient of 3x3 max pooling with stride 2."""
    gradient, x = op.operands(2)[:2]
    _, at = op.torch.ops.aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
    does = op.torch.ops.aten.max_pool2d_with_indices_backward
    return lambda: does(gradient, x, [3, 3], [2, 2], [1, 1], [1, 1], False, at)
