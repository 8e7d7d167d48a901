"""Builders of layer ops: attention, convolution, normalisation, pooling, and gradients."""

from __future__ import annotations

from .torch_tensors import Call, TorchOp


def attention(a: TorchOp) -> Call:
    """Causal attention of query, key and value."""
    q, k, v = a.operands(3)[:3]
    does = a.torch.nn.functional.scaled_dot_product_attention
    return lambda: does(q, k, v, is_causal=True)


def attention_backward(a: TorchOp) -> Call:
    """Gradients of attention by the CPU's flash kernel."""
    gradient, q, k, v = a.operands(4)[:4]
    aten = a.torch.ops.aten
    forward, backward = (
        aten._scaled_dot_product_flash_attention_for_cpu,
        aten._scaled_dot_product_flash_attention_for_cpu_backward,
    )
    out, stats = forward(q, k, v, 0.0, True)
    return lambda: backward(gradient, q, k, v, out, stats, 0.0, True)


def flash_attention(a: TorchOp) -> Call:
    """Causal flash attention on a GPU."""
    q, k, v = a.operands(3)[:3]
    does = a.torch.ops.aten._scaled_dot_product_flash_attention
    return lambda: does(q, k, v, 0.0, True)


def flash_attention_backward(a: TorchOp) -> Call:
    """Gradients of flash attention on a GPU; the forward pass is run once while building."""
    gradient, q, k, v = a.operands(4)[:4]
    aten = a.torch.ops.aten
    out, sums, *lengths, seed, offset, _ = aten._scaled_dot_product_flash_attention(
        q, k, v, 0.0, True
    )
    does = aten._scaled_dot_product_flash_attention_backward
    return lambda: does(gradient, q, k, v, out, sums, *lengths, 0.0, True, seed, offset)


def convolution(a: TorchOp) -> Call:
    """Convolution with padding of half a kernel."""
    x, weight, *rest = a.operands(2)
    stride, padding = _stride(a), [s // 2 for s in weight.shape[2:]]
    bias = rest[0] if rest else None
    steps, ones, zeros = [stride] * len(padding), [1] * len(padding), [0] * len(padding)
    groups = x.shape[1] // weight.shape[1]
    does = a.torch.convolution
    return lambda: does(x, weight, bias, steps, padding, ones, False, zeros, groups)


def convolution_backward(a: TorchOp) -> Call:
    """Gradients of a convolution's input and weight; the stride is inferred from the shapes."""
    gradient, x, weight = a.operands(3)[:3]
    padding = [s // 2 for s in weight.shape[2:]]
    stride = strides_between(x.shape, weight.shape, gradient.shape)
    if not stride:
        raise a.refusal("no stride with padding of half a kernel gives these shapes")
    steps, ones, zeros = [stride] * len(padding), [1] * len(padding), [0] * len(padding)
    mask, does = [True, True, False], a.torch.ops.aten.convolution_backward
    return lambda: does(gradient, x, weight, None, steps, padding, ones, False, zeros, 1, mask)


def _stride(a: TorchOp) -> int:
    if not a.stride:
        raise a.refusal("a signature does not tell the stride; say it as 'stride=2' after the name")
    return a.stride


def strides_between(x: tuple[int, ...], weight: tuple[int, ...], out: tuple[int, ...]) -> int:
    """Stride of a convolution with padding of half a kernel, inferred from shapes; 0 for none.

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


def batch_norm(a: TorchOp) -> Call:
    """Batch norm in training mode."""
    x, weight, bias, mean, variance = a.operands(5)[:5]
    does = a.torch.native_batch_norm
    return lambda: does(x, weight, bias, mean, variance, True, 0.1, 1e-5)


def batch_norm_backward(a: TorchOp) -> Call:
    """Gradients of batch norm's input, weight and bias."""
    gradient, x, weight, *rest = a.operands(5)
    mean, variance = rest[:2]
    saved = rest[2:4] or rest[:2]
    does = a.torch.ops.aten.native_batch_norm_backward
    mask = [True, True, True]
    return lambda: does(gradient, x, weight, mean, variance, *saved, True, 1e-5, mask)


def layer_norm(a: TorchOp) -> Call:
    """Layer norm over the last dimension."""
    x, weight, bias = a.operands(3)[:3]
    return lambda: a.torch.native_layer_norm(x, weight.shape, weight, bias, 1e-5)


def layer_norm_backward(a: TorchOp) -> Call:
    """Gradients of layer norm."""
    gradient, x, *_ = a.operands(2)
    width = [x.shape[-1]]
    weight, bias = (a.torch.ones(width, dtype=x.dtype, device=x.device) for _ in range(2))
    _, mean, scale = a.torch.native_layer_norm(x, width, weight, bias, 1e-5)
    does, mask = a.torch.ops.aten.native_layer_norm_backward, [True, True, True]
    return lambda: does(gradient, x, width, mean, scale, weight, bias, mask)


def pool(a: TorchOp) -> Call:
    """Max pooling of 3 x 3 with stride 2."""
    (x,) = a.operands(1)[:1]
    does = a.torch.ops.aten.max_pool2d_with_indices
    return lambda: does(x, [3, 3], [2, 2], [1, 1])


def pool_backward(a: TorchOp) -> Call:
    """Gradient of max pooling of 3 x 3 with stride 2."""
    gradient, x = a.operands(2)[:2]
    _, at = a.torch.ops.aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
    does = a.torch.ops.aten.max_pool2d_with_indices_backward
    return lambda: does(gradient, x, [3, 3], [2, 2], [1, 1], [1, 1], False, at)
