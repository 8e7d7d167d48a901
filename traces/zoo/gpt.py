"""A small GPT (pre-norm decoder, Radford et al. 2019), trained on random tokens.

Four layers of width 256 and a vocabulary of 2048: 4.2 M parameters, a step of about 0.1 s on
one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import Tensor, nn

from .train import common_argument_parser, train


class Block(nn.Module):
    """Transformer block: causal attention and an MLP, each added to its input."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Compute the block's output."""
        x = x + self.project(self.attend(self.norm_1(x)))
        return x + self.mlp(self.norm_2(x))

    def attend(self, x: Tensor) -> Tensor:
        """Causal self-attention over (samples, length, width)."""
        samples, length, width = x.shape
        split = self.qkv(x).view(samples, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return mixed.transpose(1, 2).reshape(samples, length, width)


class GPT(nn.Module):
    """GPT model: returns one logit per entry of the vocabulary for each token."""

    def __init__(self, words: int, width: int, layers: int, length: int):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads=4) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Compute the logits, shape (samples * length, vocabulary size)."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = self.blocks(self.words(tokens) + self.places(places))
        return self.head(self.norm(hidden)).flatten(0, 1)


def token_arguments(description: str) -> argparse.ArgumentParser:
    """Parser of the command-line arguments of a language model."""
    parser = common_argument_parser(description, batch=4)
    parser.add_argument("--length", type=int, default=64, help="tokens a sample")
    parser.add_argument("--words", type=int, default=2048)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    return parser


def train_on_tokens(make: Callable[[], nn.Module], args: argparse.Namespace) -> None:
    """Train a model that is made after the seed is set, on random tokens."""
    torch.manual_seed(0)

    def batch() -> tuple[Tensor, Tensor]:
        text = torch.randint(args.words, (args.batch, args.length + 1))
        return text[:, :-1], text[:, 1:].flatten()

    def adamw(parameters: object) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=1e-3)

    train(make(), adamw, batch, args)


def main() -> None:
    """Train the model with command-line arguments."""
    args = token_arguments(__doc__ or "").parse_args()
    train_on_tokens(lambda: GPT(args.words, args.width, args.layers, args.length), args)


if __name__ == "__main__":
    main()
