"""ResNet-50 (He et al. 2016, doi:10.1109/CVPR.2016.90, table 1), trained on random images.

The stride of 2 is in the 3x3 convolution of a bottleneck, as in most later implementations.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .train import common_argument_parser, train

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, first stride
EXPANSION = 4


def conv_and_norm(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    """Convolution followed by batch norm."""
    layer = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    """Bottleneck block: convolutions 1x1, 3x3 and 1x1, added to the input."""

    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__()
        outputs = width * EXPANSION
        self.reduce = conv_and_norm(inputs, width, 1)
        self.mix = conv_and_norm(width, width, 3, stride)
        self.expand = conv_and_norm(width, outputs, 1)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else conv_and_norm(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the block's output."""
        inner = self.mix(self.reduce(x).relu_()).relu_()
        return (self.expand(inner) + self.shortcut(x)).relu_()


def resnet50(classes: int = 1000) -> nn.Sequential:
    """Build ResNet-50; it has 25.6 M parameters with 1000 classes."""
    layers: list[nn.Module] = [
        conv_and_norm(3, 64, 7, 2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    inputs = 64
    for width, blocks, first in STAGES:
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, first if block == 0 else 1))
            inputs = width * EXPANSION
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def main() -> None:
    """Train the model with command-line arguments."""
    parser = common_argument_parser(__doc__ or "", batch=8)
    parser.add_argument("--image", type=int, default=64, help="pixels a side")
    args = parser.parse_args()
    torch.manual_seed(0)

    def batch() -> tuple[Tensor, Tensor]:
        images = torch.randn(args.batch, 3, args.image, args.image)
        return images, torch.randint(1000, (args.batch,))

    def sgd(parameters: object) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)

    train(resnet50(), sgd, batch, args)


if __name__ == "__main__":
    main()
