"""Small mixture-of-experts model: GPT blocks with four experts of equal capacity as the MLP.

Each expert takes the tokens with the highest scores for it, the same number for every expert
(expert choice, Zhou et al. 2022, arXiv:2202.09368). So all shapes are fixed and do not depend on
the data.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .gpt import GPT, Block, token_arguments, train_on_tokens


class ExpertLayer(nn.Module):
    """Layer of experts: a router, and two GEMMs per expert.

    A token goes to ``chosen`` experts on average.
    """

    def __init__(self, width: int, count: int, chosen: int, inner: int):
        super().__init__()
        self.count, self.chosen = count, chosen
        self.router = nn.Linear(width, count, bias=False)
        self.first = nn.Parameter(torch.randn(count, width, inner) * width**-0.5)
        self.second = nn.Parameter(torch.randn(count, inner, width) * inner**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Output of the experts, which is added to the tokens."""
        tokens = x.flatten(0, 1)
        wanted = self.router(tokens).softmax(-1)
        rows = len(tokens) * self.chosen // self.count
        taken = wanted.detach().t().topk(rows).indices.flatten()
        sent = tokens.index_select(0, taken).view(self.count, rows, -1)
        done = torch.bmm(nn.functional.gelu(torch.bmm(sent, self.first)), self.second)
        back = torch.zeros_like(tokens).index_add(0, taken, done.flatten(0, 1))
        return (back * wanted.sum(-1, keepdim=True)).view_as(x)


class MoE(GPT):
    """GPT model whose MLPs are mixtures of experts."""

    def __init__(self, words: int, width: int, layers: int, length: int, experts: int, chosen: int):
        super().__init__(words, width, layers, length)
        for block in self.blocks:
            assert isinstance(block, Block)  # noqa: S101  GPT has no others
            block.mlp = ExpertLayer(width, experts, chosen, 4 * width)


def main() -> None:
    """Train the model with command-line arguments."""
    parser = token_arguments(__doc__ or "")
    parser.add_argument("--experts", type=int, default=4)
    parser.add_argument("--chosen", type=int, default=2, help="experts of a token, in the mean")
    args = parser.parse_args()
    sizes = (args.words, args.width, args.layers, args.length, args.experts, args.chosen)
    train_on_tokens(lambda: MoE(*sizes), args)


if __name__ == "__main__":
    main()
