"""A small GPT twice: of whole layers, and of Megatron-LM's column- and row-parallel ones.

Run under torch, one process a rank: ``python megatron_gpt.py OUT RANK WORLD TENSOR BUCKET_MB``
writes ``OUT/rankR.json.gz``, two steps of WORLD / TENSOR data-parallel replicas, each of TENSOR
ranks (arXiv:1909.08053, section 3; f and g of its figure 3).
"""

import gzip
import sys
from pathlib import Path

import torch
from torch import distributed as dist
from torch import nn

F = nn.functional
BATCH, LENGTH, WIDTH, HEADS, WORDS, LAYERS = 2, 24, 64, 4, 112, 2


class Copy(torch.autograd.Function):
    """f: nothing forward, an all-reduce backward."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class Reduce(torch.autograd.Function):
    """g: an all-reduce forward, nothing backward."""

    @staticmethod
    def forward(ctx, x, group):
        dist.all_reduce(x, group=group)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class ColumnParallel(nn.Linear):
    """A linear layer of which each rank has some columns."""

    def __init__(self, inputs, outputs, group, ranks, *, bias=True):
        super().__init__(inputs, outputs // ranks, bias=bias)
        self.group = group

    def forward(self, x):
        return super().forward(x)


class RowParallel(nn.Module):
    """A linear layer of which each rank has some rows; its bias is added behind the sum."""

    def __init__(self, inputs, outputs, group, ranks):
        super().__init__()
        self.group = group
        self.weight = nn.Parameter(torch.randn(outputs, inputs // ranks))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return Reduce.apply(F.linear(x, self.weight), self.group) + self.bias


class Block(nn.Module):
    """A transformer block: fused (or separate) query, key and value; GELU, or gated SiLU."""

    def __init__(self, group, ranks, gated):
        super().__init__()
        self.heads, self.group, self.gated = HEADS // ranks, group, gated
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

        def column(outputs):
            if group is None:
                return nn.Linear(WIDTH, outputs, bias=not gated)
            return ColumnParallel(WIDTH, outputs, group, ranks, bias=not gated)

        def row(inputs):
            if group is None:
                return nn.Linear(inputs, WIDTH)
            return RowParallel(inputs, WIDTH, group, ranks)

        self.qkv = nn.ModuleList(
            [column(WIDTH) for _ in range(3)] if gated else [column(3 * WIDTH)]
        )
        self.out = row(WIDTH)
        self.up = nn.ModuleList([column(3 * WIDTH) for _ in range(1 + gated)])
        self.down = row(3 * WIDTH)

    def shared(self, x):
        return x if self.group is None else Copy.apply(x, self.group)

    def forward(self, x):
        y = self.shared(self.norm_1(x))
        if self.gated:
            q, k, v = (m(y).view(BATCH, LENGTH, self.heads, -1).transpose(1, 2) for m in self.qkv)
        else:
            parts = self.qkv[0](y).view(BATCH, LENGTH, 3, self.heads, -1)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(BATCH, LENGTH, -1))
        y = self.shared(self.norm_2(x))
        y = F.silu(self.up[0](y)) * self.up[1](y) if self.gated else F.gelu(self.up[0](y))
        return x + self.down(y)


class Model(nn.Module):
    """The whole model; embedding and output layer are whole on every rank."""

    def __init__(self, group=None, ranks=1, *, gated=False):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*[Block(group, ranks, gated) for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(LENGTH))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


def make(model=None, *, gated=False):
    """A step of training, as ``trace capture --meta`` takes it."""
    model = model or Model(gated=gated)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

    def step():
        text = torch.randint(WORDS, (BATCH, LENGTH + 1))
        loss = F.cross_entropy(model(text[:, :-1]), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def gated():
    """A step of a model with separate query, key and value, and a gated perceptron."""
    return make(gated=True)


def main(out, rank, world, tensor, bucket, kind="fused"):
    """Profile two steps of one rank."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    group, gated = None, kind == "gated"
    if world > 1:
        store = dist.FileStore(f"{out}/store", world)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    if tensor > 1:
        groups = [list(range(at, at + tensor)) for at in range(0, world, tensor)]
        group = [dist.new_group(ranks) for ranks in groups][rank // tensor]
    model = Model(group, tensor, gated=gated)
    if world > tensor:
        beside = [list(range(at, world, tensor)) for at in range(tensor)]
        replicas = [dist.new_group(ranks) for ranks in beside][rank % tensor]
        model = nn.parallel.DistributedDataParallel(
            model, process_group=replicas, bucket_cap_mb=bucket
        )
    step = make(model)
    step()
    activities = [torch.profiler.ProfilerActivity.CPU]
    wanted = torch.profiler.schedule(wait=1, warmup=1, active=2)
    with torch.profiler.profile(
        activities=activities, schedule=wanted, record_shapes=True
    ) as profile:
        for _ in range(4):
            step()
            profile.step()
    plain = Path(out) / f"rank{rank}.json"
    profile.export_chrome_trace(str(plain))
    with gzip.open(f"{plain}.gz", "wb") as file:
        file.write(plain.read_bytes())
    plain.unlink()
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    where, number, of, degree, cap, *rest = sys.argv[1:]
    main(where, int(number), int(of), int(degree), float(cap), *rest)
