"""Convolutional networks: forward and backward ops of each part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from ....sim.errors import ScenarioError
from ....sim.facts.signature import WIDTH
from ..description.description import ImageNetwork, JoinedBranches, Part, Repeated, SummedBranches
from .operations import (
    Operation,
    Split,
    Work,
    compute_signature,
    cross_entropy,
    linear,
    memory_op,
)

WORDS = ("conv", "max-pool", "average-pool", "average", "linear", "dropout")
FLAGS = ("norm", "relu", "bias", "ceil")
OPTIONS = ("stride", "pad", "groups")


class Images(NamedTuple):
    """Tensor between parts: images of a micro-batch.

    Parameters
    ----------
    is_sample : True for the input samples, which need no gradient
    """

    batch: int
    channels: int
    height: int
    width: int
    is_sample: bool = False

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Tensor shape: batch, channels, height, width."""
        return self[:4]

    @property
    def numbers(self) -> int:
        """Total number of elements."""
        return self.batch * self.channels * self.height * self.width


class NamedOperations(NamedTuple):
    """Operations of one part with its name, and the size of its input in B."""

    name: str
    operations: tuple[Operation, ...]
    entering: float


def image_layers(model: ImageNetwork, split: Split) -> list[NamedOperations]:
    """Parts of a convolutional network in order, with the loss as the last one.

    Raises
    ------
    ScenarioError
        A part is unknown, or its input images are too small.

    Examples
    --------
    >>> tiny = ImageNetwork(8, ("conv 4 3 relu", "average", "linear 10"))
    >>> [(part.name, sum(o.weights for o in part.operations))
    ...     for part in image_layers(tiny, Split(batch=1, sequence=1))]
    [('conv', 108), ('average', 0), ('linear', 50), ('output', 0)]
    """
    images = Images(split.batch, model.channels, model.image, model.image, is_sample=True)
    found = []
    for part in _unrolled(model.parts):
        name = part.split()[0] if isinstance(part, str) else "block"
        entering = float(split.width * images.numbers)
        operations, images = _part(part, images, split)
        found.append(NamedOperations(name, tuple(operations), entering))
    loss = cross_entropy(images.batch, images.channels, split)
    return [*found, NamedOperations("output", (loss,), float(split.width * images.numbers))]


def _unrolled(parts: tuple[Part, ...]) -> Iterator[Part]:
    for part in parts:
        if isinstance(part, Repeated):
            yield from list(_unrolled(part.of)) * part.times
        else:
            yield part


def _part(part: Part, images: Images, split: Split) -> tuple[list[Operation], Images]:
    """Operations of a part, and its output images."""
    if isinstance(part, Repeated):
        return _chain(part.of * part.times, images, split)
    if isinstance(part, SummedBranches | JoinedBranches):
        return _branches(part, images, split)
    line = _read_line(part)
    if line.word == "conv":
        return _convolution(line, images, split)
    if line.word == "linear":
        return _linear(line, images, split)
    if line.word == "dropout":
        return [_dropout(images, split)], images
    return _pool(line, images, split)


def _chain(parts: tuple[Part, ...], images: Images, split: Split) -> tuple[list[Operation], Images]:
    found: list[Operation] = []
    for part in _unrolled(parts):
        operations, images = _part(part, images, split)
        found += operations
    return found, images


def _branches(
    part: SummedBranches | JoinedBranches, images: Images, split: Split
) -> tuple[list[Operation], Images]:
    """Operations of all branches and of their combination, and the output images."""
    summed = isinstance(part, SummedBranches)
    found: list[Operation] = []
    ends = []
    for way in part.ways:
        operations, end = _chain(way, images, split)
        found += operations
        ends.append(end)
    sides = {(e.height, e.width, e.channels if summed else 0) for e in ends}
    if len(sides) > 1:
        shapes = ", ".join(f"{e.channels}x{e.height}x{e.width}" for e in ends)
        raise ScenarioError(
            f"workload.model: branches that are summed or joined end with images of {shapes}; "
            "make their sizes equal"
        )
    if summed:
        return [*found, _sum(images, ends[0], split), _relu(ends[0], split)], ends[0]
    whole = ends[0]._replace(channels=sum(e.channels for e in ends))
    return [*found, _joined(whole, split)], whole


@dataclass(frozen=True)
class _Line:
    """Parsed text of a part: a word, numbers, options and flags."""

    text: str
    word: str
    numbers: tuple[str, ...]
    flags: frozenset[str]
    options: dict[str, str]

    def fail(self, why: str) -> ScenarioError:
        return ScenarioError(f"workload.model: part '{self.text}' {why}")

    def number(self, place: int) -> int:
        """Parse the number at this index (from 0) after the word."""
        try:
            return int(self.numbers[place])
        except (IndexError, ValueError) as error:
            raise self.fail(
                f"has no number {place + 1}; write it like 'conv 64 3 stride=2'"
            ) from error

    def pair(self, written: str) -> tuple[int, int]:
        """Parse two sizes: ``1x7``, or ``3`` for both."""
        try:
            high, _, wide = written.partition("x")
            return int(high), int(wide or high)
        except ValueError as error:
            raise self.fail(f"has '{written}' for a size; write 3, or 1x7") from error


def _read_line(part: str) -> _Line:
    """Parse the text of a part.

    Raises
    ------
    ScenarioError
        A word is unknown; the message names it.
    """
    word, *rest = part.split() or [""]
    options = dict(w.split("=", 1) for w in rest if "=" in w)
    plain = [w for w in rest if "=" not in w]
    flags = frozenset(w for w in plain if not w[0].isdigit())
    line = _Line(part, word, tuple(w for w in plain if w[0].isdigit()), flags, options)
    for known, said in ((WORDS, {word}), (FLAGS, flags), (OPTIONS, set(options))):
        for unknown in sorted(said - set(known)):
            raise line.fail(f"has the unknown word '{unknown}'; take one of {', '.join(known)}")
    return line


def _sides(line: _Line, kernel: tuple[int, int], images: Images) -> tuple[int, int, int]:
    """Stride, output height and output width of a window operation."""
    plain = "x".join(str((k - 1) // 2) for k in kernel)
    stride = int(line.options.get("stride", "1"))
    pads = line.pair(line.options.get("pad", plain))
    ceil = stride - 1 if "ceil" in line.flags else 0
    high, wide = (
        (size + 2 * pad - k + ceil) // stride + 1
        for size, pad, k in zip((images.height, images.width), pads, kernel, strict=True)
    )
    if high < 1 or wide < 1:
        raise line.fail(
            f"has a window that is larger than its images of {images.height}x{images.width}; use "
            "larger images, or a smaller window"
        )
    return stride, high, wide


def _convolution(line: _Line, images: Images, split: Split) -> tuple[list[Operation], Images]:
    """Convolution with its norm and ReLU, if any; saves its input."""
    outputs, kernel = line.number(0), line.pair(line.numbers[1] if line.numbers[1:] else "1")
    groups = int(line.options.get("groups", "1"))
    if images.channels % groups or outputs % groups:
        raise line.fail(
            f"has {groups} groups, which must divide its {images.channels} input and {outputs} "
            "output channels; change groups"
        )
    stride, high, wide = _sides(line, kernel, images)
    output = Images(images.batch, outputs, high, wide)
    dtype, width = split.precision.activations, split.width
    weight = (outputs, images.channels // groups, *kernel)
    numbers = outputs * images.channels // groups * kernel[0] * kernel[1]
    flop = 2.0 * output.batch * high * wide * numbers
    moved = float(width * (images.numbers + output.numbers + numbers))
    attributes = f" stride={stride}" if stride > 1 else ""
    operands = (dtype, images.shape), (dtype, weight)
    bias = ((outputs,),) if "bias" in line.flags else ()
    row = [(dtype, shape) for shape in bias]
    back = f"aten::convolution_backward{attributes}{' input=0' if images.is_sample else ''}"
    again = moved + width * (numbers + (0 if images.is_sample else images.numbers))
    found = [
        Operation(
            (Work("convolution",
                  compute_signature(f"aten::convolution{attributes}", *operands, *row), flop,
                  moved + width * outputs * len(bias)),),
            (Work("convolution backward", compute_signature(back, (dtype, output.shape), *operands),
                  (1 if images.is_sample else 2) * flop, again),),
            float(width * images.numbers),
            (*bias, weight),
        )
    ]  # fmt: skip
    if "norm" in line.flags:
        found.append(_batch_norm(output, split))
    if "relu" in line.flags:
        found.append(_relu(output, split))
    return found, output


def _batch_norm(images: Images, split: Split) -> Operation:
    """Batch norm: the input is read once for its statistics, and once to normalize it."""
    dtype, size = split.precision.activations, float(split.width * images.numbers)
    shape, row = (dtype, images.shape), ("fp32", (images.channels,))
    forward, backward = (row,) * 4, (row,) * 5  # weight, bias, means and variances, running too
    each = 4.0 * images.channels
    return Operation(
        (Work("batch norm", compute_signature("aten::native_batch_norm", shape, *forward), 0.0,
              3 * size + len(forward) * each),),
        (Work("batch norm backward",
              compute_signature("aten::native_batch_norm_backward", shape, shape, *backward), 0.0,
              5 * size + len(backward) * each),),
        size,
        ((images.channels,),) * 2,
        channels=images.channels,
    )  # fmt: skip


def _relu(images: Images, split: Split) -> Operation:
    """In-place ReLU; the next operation saves its result."""
    dtype, size, shape = (
        split.precision.activations,
        float(split.width * images.numbers),
        images.shape,
    )
    return Operation(
        (memory_op("relu", "aten::relu", dtype, [shape], size),),
        (memory_op("relu backward", "aten::threshold_backward", dtype, [shape, shape], size),),
    )


def _sum(images: Images, output: Images, split: Split) -> Operation:
    """Sum of branches; in the backward pass, the sum of the gradients of their common input."""
    dtype, width = split.precision.activations, split.width
    forward, backward = (
        memory_op(label, "aten::add", dtype, [of.shape] * 2, float(width * of.numbers))
        for label, of in (("sum", output), ("sum backward", images))
    )
    return Operation((forward,), () if images.is_sample else (backward,))


def _joined(images: Images, split: Split) -> Operation:
    """Concatenation of branches along channels; backward, each branch reads its slice."""
    dtype, size = split.precision.activations, float(split.width * images.numbers)
    return Operation((memory_op("join", "aten::cat", dtype, [images.shape], size),))


def _dropout(images: Images, split: Split) -> Operation:
    dtype, shape = split.precision.activations, images.shape
    moved = float((split.width + 1) * images.numbers)
    return Operation(
        (memory_op("dropout", "aten::native_dropout", dtype, [shape], moved),),
        (memory_op("dropout backward", "aten::native_dropout_backward", dtype, [shape], moved),),
        float(images.numbers),
    )


def _pool(line: _Line, images: Images, split: Split) -> tuple[list[Operation], Images]:
    """Max or average pooling over windows, over complete images, or to a given output size."""
    if line.word == "average":
        side = int(line.numbers[0]) if line.numbers else 1
        if side > min(images.height, images.width):
            raise line.fail(
                f"has an output of {side}x{side}, larger than its images of "
                f"{images.height}x{images.width}; write a smaller size"
            )
        output = images._replace(height=side, width=side)
        name = "aten::_adaptive_avg_pool2d"
    else:
        kernel = line.pair(line.numbers[0] if line.numbers else "2")
        _, high, wide = _sides(line, kernel, images)
        output = images._replace(height=high, width=wide)
        largest = line.word == "max-pool"
        name = "aten::max_pool2d_with_indices" if largest else "aten::avg_pool2d"
    dtype = split.precision.activations
    before, after = (float(split.width * i.numbers) for i in (images, output))
    if line.word == "max-pool":
        places, put = float(WIDTH["int64"] * output.numbers), ("int64", output.shape)
        operands = (dtype, output.shape), (dtype, images.shape), put
        back = Work("max-pool backward", compute_signature(f"{name}_backward", *operands), 0.0,
                    after + before + places)  # fmt: skip
        return [
            Operation(
                (memory_op(line.word, name, dtype, [images.shape], after + places),),
                (back,),
                before + places,
            )
        ], output
    mean = output.height * output.width == 1  # as in torch
    forward = memory_op(line.word, "aten::mean" if mean else name, dtype, [images.shape], after)
    backward = memory_op(f"{line.word} backward", "aten::div" if mean else f"{name}_backward",
                        dtype, [images.shape if mean else output.shape], before)  # fmt: skip
    return [Operation((forward,), (backward,))], output


def _linear(line: _Line, images: Images, split: Split) -> tuple[list[Operation], Images]:
    """Linear layer over all elements of an image, with a bias."""
    outputs, inputs = line.number(0), images.numbers // images.batch
    one = linear("linear", images.batch, inputs, outputs, replace(split, tensor=1), bias=True)
    output = Images(images.batch, outputs, 1, 1)
    return [one, *([_relu(output, split)] if "relu" in line.flags else [])], output
