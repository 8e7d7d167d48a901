"""Is a step that is not run the step that is captured, op for op?  Needs torch."""

import gzip
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from foretrace.sim.errors import TraceError
from foretrace.sim.facts.ops import Kind
from foretrace.traces.capture.meta import capture_meta
from foretrace.traces.formats import kineto, native
from foretrace.traces.infer.trace_info import memory_peak
from foretrace.traces.transform.data_parallel import data_parallel

torch = pytest.importorskip("torch", reason="modules are compared with torch, which is an extra")
nn, F = torch.nn, torch.nn.functional
from foretrace.traces.capture.meta_hook import record_step  # noqa: E402  needs torch
from foretrace.traces.dispatched import dispatched_ops  # noqa: E402  needs torch


class Attention(nn.Module):
    """Attention as its scores' product, a mask added."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = torch.full((s, s), -1e9).triu(1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(w / self.heads) + mask
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, w))


class Block(nn.Module):
    """A GPT block with fused attention, and its vocabulary."""

    def __init__(self, width: int, heads: int, words: int):
        super().__init__()
        self.heads, self.words = heads, nn.Embedding(words, width)
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, tokens):
        x = self.words(tokens)
        b, s, w = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, w))
        x = x + self.mlp(self.norm_2(x))
        return x @ self.words.weight.t()


class Residual(nn.Module):
    """A block of ResNet, with its shortcut."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.one = nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False)
        self.two = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(inputs, outputs, 1, 2, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(3))

    def forward(self, x):
        y = self.norms[0](self.one(x)).relu_()
        return (self.norms[1](self.two(y)) + self.norms[2](self.short(x))).relu_().mean((2, 3))


class Mixture(nn.Module):
    """Four experts of equal capacity, the best token first."""

    def __init__(self, width: int):
        super().__init__()
        self.route = nn.Linear(width, 4, bias=False)
        self.first = nn.Parameter(torch.randn(4, width, 2 * width))
        self.second = nn.Parameter(torch.randn(4, 2 * width, width))

    def forward(self, x):
        weight = self.route(x).softmax(-1).t()
        chosen = weight.topk(len(x) // 2).indices
        best = weight.gather(1, chosen)
        rows = x[chosen.flatten()].view(4, -1, x.shape[1])
        done = torch.bmm(F.silu(torch.bmm(rows, self.first)), self.second) * best.unsqueeze(-1)
        return x.index_add(0, chosen.flatten(), done.flatten(0, 1))


class Last(nn.Module):
    """What a recurrent network says at the end."""

    def __init__(self, of: nn.Module):
        super().__init__()
        self.of = of

    def forward(self, x):
        return self.of(x)[0][:, -1]


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, groups=2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip


def bag() -> nn.Module:
    return nn.Sequential(nn.EmbeddingBag(50, 16, mode="sum"), nn.Linear(16, 3))


def norms() -> nn.Module:
    return nn.Sequential(*[nn.Sequential(nn.LayerNorm(24), nn.Tanh()) for _ in range(3)])


def numbers(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(*shape)


def words(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randint(50, shape)


def sgd(p):
    return torch.optim.SGD(p, lr=0.1)


def momentum(p):
    return torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)


def adam(p):
    return torch.optim.Adam(p, lr=1e-3)


def adamw(p):
    return torch.optim.AdamW(p, lr=1e-3, fused=True)


MODULES = {
    "perceptron": (
        lambda: nn.Sequential(nn.Linear(31, 17), nn.ReLU(), nn.Linear(17, 3)), numbers(5, 31), sgd,
    ),
    "convolutions": (convolutional, numbers(2, 3, 16, 16), momentum),
    "long short-term memory": (
        lambda: Last(nn.LSTM(8, 12, 2, batch_first=True)), numbers(2, 5, 8), adam,
    ),
    "transformer encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2),
        numbers(2, 6, 16), adamw,
    ),
    "block of GPT": (lambda: Block(16, 2, 50), words(2, 7), adamw),
    "bag of embeddings": (bag, words(4, 6), sgd),
    "stack of norms": (norms, numbers(3, 5, 24), adam),
    "residual block": (lambda: Residual(4, 6), numbers(2, 4, 9, 9), momentum),
    "mixture of experts": (lambda: Mixture(8), numbers(12, 8), adamw),
    "masked attention": (lambda: Attention(16, 2), numbers(2, 6, 16), adam),
}  # fmt: skip


def trainer(module, batch, optimizer) -> Callable[[], Callable[[], None]]:
    """What makes a training step: module, optimizer, then steps."""

    def make():
        model = module()
        by = optimizer(model.parameters())

        def step() -> None:
            found = model(batch())
            loss = found.square().mean()
            by.zero_grad()
            loss.backward()
            by.step()

        return step

    return make


def captured(make, path: Path) -> Path:
    """What torch's profiler records of the second step."""
    step = make()
    step()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True
    ) as profiler:
        step()
    profiler.export_chrome_trace(str(path))
    return path


@pytest.fixture(params=MODULES)
def both(request, tmp_path) -> tuple[Path, Path]:
    """A module's step as it is recorded without running it, and as it is captured."""
    make = trainer(*MODULES[request.param])
    made = tmp_path / "meta.json.gz"
    record_step(make).save(made)
    torch.manual_seed(0)
    return made, captured(make, tmp_path / "rank0.json")


def test_a_step_that_is_not_run_is_the_captured_one_op_for_op(both):
    made, recorded = (
        [op.text_without_time for op in dispatched_ops(kineto.read(path))] for path in both
    )
    assert len(made) > 5
    assert made == recorded


@pytest.fixture(scope="module")
def perceptron(tmp_path_factory) -> Path:
    """A step of 31 x 17 + 17 x 3 weights and 20 biases, which nobody ran."""
    path = tmp_path_factory.mktemp("meta") / "rank0.json.gz"
    record_step(trainer(*MODULES["perceptron"])).save(path)
    return path


def test_its_graph_has_work_and_no_times(perceptron):
    graph = kineto.read(perceptron).graph()
    computes = graph.ops.kind == Kind.COMPUTE
    assert np.isnan(graph.ops.duration[computes]).all()
    assert not np.isnan(graph.ops.flop[computes] + graph.ops.bytes[computes]).any()
    products = 2 * (5 * 31 * 17 + 5 * 17 * 3)  # forward, and as many for the weights' gradients
    assert graph.ops.flop.sum() == 2 * products + 2 * 5 * 17 * 3  # and one of the first input
    assert graph.ops.period[computes].tolist() == [0] * computes.sum()


def test_it_says_that_it_has_no_times_and_how_much_memory(perceptron, tmp_path):
    trace = native.read(native.write(kineto.read(perceptron), tmp_path / "kept"))
    told = trace.info()
    assert not told.find_use("replay").possible
    assert "was not run" in told.find_use("replay").why
    assert (told.step_times, told.seconds) == ((), None)
    with gzip.open(perceptron) as text:
        facts = json.load(text)["foretrace"]["meta"]
    assert (facts["parameters"], facts["parameter_bytes"]) == (598, 4 * 598)
    assert memory_peak(trace) == {"host": facts["peak_bytes"]}
    kept = 5 * 31 + 5 * 17 + 5 * 3 + 1 + 1  # input, activation, result, loss and its gradient
    assert facts["kept_bytes"] == 4 * kept


def test_it_is_made_data_parallel_where_its_gradients_are_done(perceptron):
    trace = kineto.read(perceptron)
    graph = data_parallel(trace, trace.graph(), copy_rate=1e9, bucket=200)
    reduced = graph.ops.kind == Kind.COLLECTIVE
    assert graph.ops.bytes[reduced].tolist() == [4 * (3 * 17 + 3), 4 * (31 * 17 + 17)]


SCRIPT = """
import torch
model = torch.nn.Linear(4, 2)
step = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range({steps}):
    found = model(torch.randn(3, 4)){twist}
    if found.sum().item() > 1e9:
        raise SystemExit(3)
    step.zero_grad()
    found.sum().backward()
    step.step()
"""


def script(folder: Path, steps: int = 9, twist: str = "") -> list[str]:
    path = folder / "train.py"
    path.write_text(SCRIPT.format(steps=steps, twist=twist))
    return [sys.executable, str(path)]


def test_a_script_is_recorded_and_a_guessed_value_named(tmp_path, caplog):
    path, facts = capture_meta(script(tmp_path), tmp_path / "out")
    assert facts["parameters"] == 10
    assert list(facts["guessed"]) == ["train.py:7"]
    assert "train.py:7: read 2 values that were not computed" in caplog.text
    assert len(kineto.read(path).graph()) > 5
    with pytest.raises(TraceError, match="already holds a recording"):
        capture_meta(script(tmp_path), tmp_path / "out")


@pytest.mark.nightly
def test_a_size_that_depends_on_values_is_refused_with_its_line(tmp_path):
    told = r"train\.py:6: the result of aten\.nonzero\.default depends on values"
    with pytest.raises(TraceError, match=told):
        capture_meta(script(tmp_path, twist=".relu().nonzero()"), tmp_path / "out")


@pytest.mark.nightly
def test_too_few_steps_are_refused(tmp_path):
    with pytest.raises(TraceError, match="made 1 steps of an optimizer, 2 are wanted"):
        capture_meta(script(tmp_path, steps=1), tmp_path / "out")


def test_a_command_that_is_no_script_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"torchrun train\.py: is neither a script nor a function"):
        capture_meta(["torchrun", "train.py"], tmp_path)


def test_a_module_and_its_inputs_are_a_step_forward_and_backward(tmp_path):
    path = tmp_path / "rank0.json.gz"
    recorder = record_step(lambda: (nn.Linear(3, 2), torch.randn(4, 3)))
    recorder.save(path)
    names = [op.name for op in dispatched_ops(kineto.read(path))]
    assert names.count("aten::addmm") == names.count("aten::mm") == 1  # no gradient of the input
    assert recorder.facts["parameters"] == 8


def test_what_a_function_returns_must_be_a_step():
    with pytest.raises(TypeError, match="it returned Linear; let it return a step"):
        record_step(lambda: nn.Linear(3, 2))
