"""Distinct ops of a scenario or trace, for the work list of a driver."""

from __future__ import annotations

from collections.abc import Iterable

from ....hil.drivers.pytorch.torch_layers import strides_between
from ....sim.facts.signature import parse_signature

BACKWARD = ("aten::convolution_backward", "aten::_slow_conv2d_backward")
FORWARD = (
    "aten::convolution",
    "aten::mkldnn_convolution",
    "aten::cudnn_convolution",
    "aten::_slow_conv2d_forward",
)


def convolution_strides(signatures: Iterable[str]) -> dict[str, int]:
    """Stride of each convolution, inferred from the shapes of its gradient.

    Parameters
    ----------
    signatures : signatures of all ops of a graph

    Examples
    --------
    >>> convolution_strides([
    ...     "compute:aten::convolution fp32[8x3x64x64] fp32[64x3x7x7]",
    ...     "compute:aten::convolution_backward fp32[8x64x32x32] fp32[8x3x64x64] fp32[64x3x7x7]",
    ... ])
    {'compute:aten::convolution fp32[8x3x64x64] fp32[64x3x7x7]': 2}
    """
    every = [parse_signature(s) for s in dict.fromkeys(signatures)]
    found: dict[tuple[str, ...], int] = {}
    for one in every:
        if one.name in BACKWARD and len(one.operands) >= 3:
            out, x, weight = one.operands[:3]
            key = (str(x), str(weight))
            found[key] = strides_between(x.shape, weight.shape, out.shape)
    known = ((s, found.get(tuple(map(str, s.operands[:2])))) for s in every if s.name in FORWARD)
    return {str(s): stride for s, stride in known if stride}


def op_signatures(file: str = "", trace: str = "") -> list[str]:
    """Signatures of all distinct ops of a scenario's workload, of a trace, or of both.

    Parameters
    ----------
    file : scenario file, or name of a bundled one
    trace : files of a trace, or ``foretrace:NAME``
    """
    from ...config.loader import load
    from ...workloads.trace_files import open_trace
    from ..building.jobs import graph_of

    graphs = [graph_of(load(file))] if file else []
    graphs += [open_trace(trace).graph()] if trace else []
    return sorted({text for graph in graphs for text in graph.ops.signatures} - {""})
