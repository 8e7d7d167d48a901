"""Published training steps that no fit used: plans, published values, and assumptions.

The list was committed before any row was run; ``judge/published.py`` runs them. The five steps of
the scenario library (GPT-3, Llama 3 405B, DeepSeek-V3, NVL72, DLRM) are not included, because their
errors were known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

FOUNDRY = "mosaicml/llm-foundry 8c8dd48f7, scripts/train/benchmarking/README.md"
WEAK = "NVIDIA/Megatron-LM, README.md, images/model_table.png (Megatron-Core 0.8, H100)"
TABLE_5 = "Korthikanti et al. 2022, arXiv:2205.05198, table 5"
TABLE_1 = "Narayanan et al. 2021, arXiv:2104.04473, table 1"
TURING = "Smith et al. 2022, arXiv:2201.11990, section 2.3"
BRIDGE = "NVIDIA-NeMo/Megatron-Bridge 067f987, docs/performance-summary-archive.md, 25.11"
LLAMA = "Dubey et al. 2024, arXiv:2407.21783, table 4, second row"
A100, H100, B200, GB200 = "a100-sxm4-80g", "h100-sxm5-80g", "b200-sxm-180g", "gb200-186g"


class PublishedStep(NamedTuple):
    """One published training step.

    Parameters
    ----------
    name : name of the row
    source : publication
    gpu, gpus : catalog name of the GPU, and number of GPUs
    workload : settings of ``workload``, without its type
    metric : ``iteration_time`` in s, ``tokens`` per second and GPU, ``mfu`` or ``hfu``
    value : published value
    assumed : assumptions about what the source does not state
    kernels : kernel file, if the source used other kernels than the catalog's
    """

    name: str
    source: str
    gpu: str
    gpus: int
    workload: dict[str, Any]
    metric: str
    value: float
    assumed: str
    kernels: str = ""


def steps() -> Iterator[PublishedStep]:
    """All rows."""
    yield from _foundry()
    yield from _weak_scaling()
    yield from _table_5()
    yield from _table_1()
    yield from _turing()
    yield from _bridge()
    yield from _llama()


def gpt(hidden: int, layers: int, heads: int, vocabulary: int, **more: Any) -> dict[str, Any]:
    """GPT with the defaults of Megatron-LM."""
    return {
        "hidden": hidden, "layers": layers, "heads": heads, "vocabulary": vocabulary,
        "inner": 4 * hidden, "norm": "layer", "biases": "all", "dropout": True, **more,
    }  # fmt: skip


def _mpt(size: str, sequence: int) -> dict[str, Any]:
    """MPT: no biases, tied embeddings, learned positions (yamls/pretrain of the source)."""
    hidden, layers, heads = {
        "1b": (2048, 24, 16), "3b": (2560, 32, 20), "7b": (4096, 32, 32), "13b": (5120, 40, 40),
        "30b": (7168, 48, 56), "70b": (8192, 80, 64),
    }[size]  # fmt: skip
    return gpt(hidden, layers, heads, 50368, biases="none", dropout=False, tied=True,
               positions=sequence)  # fmt: skip


FULL, SHARED = ("full", 3), ("none", 2)
WHOLE = ("none", 3)
FLASH = (
    "1b",
    "3b",
    "7b",
    "70b",
)  # on 128 and more with ``attn_impl: flash`` (sweep.py), not triton
MPT_ON_H100 = [  # size, tokens, GPUs, micro-batch, batch, (recomputation, ZeRO), tokens/s/GPU
    ("70b", 2048, 128, 8, 1024, FULL, 1058), ("70b", 2048, 512, 8, 4096, FULL, 1007),
    ("30b", 2048, 128, 8, 1024, FULL, 2199), ("30b", 2048, 512, 8, 4096, FULL, 2115),
    ("13b", 2048, 128, 16, 2048, FULL, 5080), ("13b", 2048, 512, 16, 8192, FULL, 4952),
    ("7b", 2048, 128, 6, 768, WHOLE, 10475), ("7b", 2048, 512, 6, 3072, WHOLE, 9670),
    ("3b", 2048, 128, 8, 1024, SHARED, 23422), ("1b", 2048, 128, 12, 1536, SHARED, 44123),
    ("30b", 2048, 8, 3, 504, FULL, 2002), ("13b", 2048, 8, 2, 16, WHOLE, 4792),
    ("7b", 2048, 8, 6, 48, WHOLE, 10643), ("7b", 8192, 8, 8, 128, FULL, 6935),
    ("1b", 8192, 8, 3, 96, WHOLE, 29157),
]  # fmt: skip
MPT_ON_A100 = [
    ("70b", 2048, 64, 8, 2048, FULL, 410), ("30b", 2048, 8, 3, 504, FULL, 916),
    ("13b", 2048, 8, 2, 48, WHOLE, 2262), ("7b", 2048, 8, 6, 96, WHOLE, 4641),
    ("7b", 8192, 8, 8, 128, FULL, 3206), ("3b", 2048, 8, 10, 160, WHOLE, 10811),
    ("1b", 2048, 8, 14, 448, WHOLE, 20513),
]  # fmt: skip


def _foundry() -> Iterator[PublishedStep]:
    """FSDP rows of LLM Foundry: FULL_SHARD is ZeRO-3, SHARD_GRAD_OP is ZeRO-2."""
    for gpu, table in ((H100, MPT_ON_H100), (A100, MPT_ON_A100)):
        for size, tokens, gpus, micro, batch, (again, zero), value in table:
            work = {"model": _mpt(size, tokens), "batch": batch, "sequence": tokens,
                    "micro_batch": micro, "zero": zero, "recompute": again}  # fmt: skip
            yield PublishedStep(
                f"mpt-{size}-{tokens}-{gpus}-{gpu[:4]}", FOUNDRY, gpu, gpus, work, "tokens", value,
                "network of the H100s (8 x 400 Gb/s); heads of 1b and 3b as now in the yamls",
                "" if gpus > 64 and size in FLASH else f"{gpu}-flash-1",
            )  # fmt: skip


def _weak_scaling() -> Iterator[PublishedStep]:
    for name, heads, hidden, layers, tensor, pipeline, batch, tflops in (
        ("1.7b", 16, 2048, 24, 1, 1, 192, 408.8), ("7.1b", 32, 4096, 30, 2, 1, 192, 465.9),
        ("16b", 48, 6144, 32, 4, 1, 192, 489.1), ("32b", 56, 7168, 48, 8, 1, 192, 459.6),
        ("70b", 64, 8192, 84, 8, 2, 384, 419.7), ("119b", 80, 10240, 92, 8, 4, 768, 420.5),
        ("177b", 96, 12288, 96, 8, 6, 1152, 432.8), ("314b", 128, 16384, 96, 8, 8, 1536, 474.4),
        ("462b", 144, 18432, 112, 8, 16, 3072, 459.9),
    ):  # fmt: skip
        model = gpt(hidden, layers, heads, 131072, positions=4096, dropout=False, tied=False)
        chunks = _chunks(layers // pipeline, 6) if pipeline > 1 else 1
        work = {"model": model, "batch": batch, "sequence": 4096, "zero": 1,
                "parallel": _ways(tensor, pipeline, tensor > 1),
                "schedule": {"chunks": chunks}}  # fmt: skip
        yield PublishedStep(
            f"gpt-{name}-h100", WEAK, H100, 48 * tensor * pipeline, work, "mfu", tflops / 989.4,
            "micro-batches of 1; ZeRO-1; nothing recomputed; chunks of the pipeline",
        )  # fmt: skip


def _ways(tensor: int, pipeline: int, sequence: bool) -> dict[str, Any]:
    return {"tensor": tensor, "pipeline": pipeline, "sequence": sequence}


def _chunks(layers: int, most: int) -> int:
    """Smallest number of chunks, at least ``most``, that divides the layers of a stage evenly."""
    return next(c for c in range(most, layers + 1) if layers % c == 0)


def _table_5() -> Iterator[PublishedStep]:
    for name, hidden, layers, heads, pipeline, chunks, micro, batch, full, selective in (
        ("22b", 6144, 48, 64, 1, 1, 4, 4, 1.42, 1.10),
        ("175b", 12288, 96, 96, 8, 3, 1, 64, 18.13, 13.75),
        ("530b", 20480, 105, 128, 35, 3, 1, 280, 49.05, 37.83),
        ("1t", 25600, 128, 160, 64, 1, 1, 512, 94.42, 71.49),
    ):
        for again, value in (("full", full), ("selective", selective)):
            work = _megatron_2021(hidden, layers, heads, batch, micro) | {
                "recompute": again, "schedule": {"chunks": chunks},
                "parallel": _ways(8, pipeline, again == "selective"),
            }  # fmt: skip
            yield PublishedStep(
                f"gpt-{name}-a100-{again}", TABLE_5, A100, 8 * pipeline, work, "iteration_time",
                value, "tied embeddings; 8 x 200 Gb/s a machine",
            )  # fmt: skip


def _megatron_2021(hidden: int, layers: int, heads: int, batch: int, micro: int) -> dict[str, Any]:
    """Settings before flash attention: scores in memory, no gradient overlap."""
    return {
        "model": gpt(hidden, layers, heads, 51200, positions=2048, tied=True), "batch": batch,
        "sequence": 2048, "micro_batch": micro, "precision": "fp16", "attention": "written",
        "overlap": False,
    }  # fmt: skip


def _table_1() -> Iterator[PublishedStep]:
    """Rows of table 1, without 3.6B on 64 GPUs, which is the model of D4."""
    for name, hidden, layers, heads, tensor, pipeline, gpus, batch, tflops in (
        ("1.7b", 2304, 24, 24, 1, 1, 32, 512, 137), ("7.5b", 4096, 36, 32, 4, 1, 128, 512, 142),
        ("18b", 6144, 40, 48, 8, 1, 256, 1024, 135), ("39b", 8192, 48, 64, 8, 2, 512, 1536, 138),
        ("76b", 10240, 60, 80, 8, 4, 1024, 1792, 140),
        ("146b", 12288, 80, 96, 8, 8, 1536, 2304, 148),
        ("310b", 16384, 96, 128, 8, 16, 1920, 2160, 155),
        ("530b", 20480, 105, 128, 8, 35, 2520, 2520, 163),
        ("1008b", 25600, 128, 160, 8, 64, 3072, 3072, 163),
    ):  # fmt: skip
        chunks = _chunks(layers // pipeline, 2) if pipeline > 2 else 1
        work = _megatron_2021(hidden, layers, heads, batch, 1 if pipeline > 1 else 4) | {
            "recompute": "full", "schedule": {"chunks": chunks},
            "parallel": _ways(tensor, pipeline, False),
        }  # fmt: skip
        yield PublishedStep(
            f"gpt-{name}-a100", TABLE_1, A100, gpus, work, "hfu", tflops / 312,
            "micro-batches (4 without a pipeline, else 1); chunks; gradients reduced in fp32",
        )  # fmt: skip


def _turing() -> Iterator[PublishedStep]:
    for machines, value in ((280, 60.1), (350, 50.2), (420, 44.4)):
        work = _megatron_2021(20480, 105, 128, 1920, 1) | {
            "recompute": "full", "parallel": _ways(8, 35, False),
        }  # fmt: skip
        yield PublishedStep(
            f"mt-nlg-530b-{machines}", TURING, A100, 8 * machines, work, "iteration_time", value,
            "micro-batches of 1; 1F1B without chunks; gradients reduced in fp32",
        )  # fmt: skip


def _bridge() -> Iterator[PublishedStep]:
    fp8 = {"sequence": 8192, "micro_batch": 1, "precision": "fp8"}
    eight = {**fp8, "model": "llama3-8b", "batch": 128}
    assumed = "nothing recomputed; ZeRO-1 where not FSDP; block scales of fp8 as of the catalog"
    for name, gpu, gpus, work, value in (
        ("llama3-8b", H100, 8, {**eight, "zero": 3}, 14451),
        ("llama3-8b", B200, 8, {**eight, "zero": 1, "micro_batch": 2}, 30624),
        ("llama3-8b", GB200, 8, {**eight, "zero": 1, "micro_batch": 2}, 31508),
        ("llama3-70b", H100, 64, {**fp8, "model": "llama3-70b", "batch": 128, "zero": 1,
         "parallel": _ways(4, 8, True), "schedule": {"chunks": 5}}, 1602),
        ("llama3-405b", H100, 1024, {**fp8, "model": "llama3-405b", "batch": 512, "zero": 1,
         "parallel": {**_ways(8, 8, True), "context": 2},
         "schedule": {"chunks": 8, "ends": 1}}, 292),
    ):  # fmt: skip
        yield PublishedStep(
            f"{name}-fp8-{gpu[:5]}", BRIDGE, gpu, gpus, work, "tokens", value, assumed
        )


def _llama() -> Iterator[PublishedStep]:
    work = {"model": "llama3-405b", "batch": 2048, "sequence": 8192, "zero": 1,
            "parallel": _ways(8, 16, True), "schedule": {"chunks": 4, "ends": 1}}  # fmt: skip
    yield PublishedStep("llama3-405b-16384", LLAMA, H100, 16384, work, "mfu", 0.41,
                        "chunks; ZeRO-1; nothing recomputed")  # fmt: skip
