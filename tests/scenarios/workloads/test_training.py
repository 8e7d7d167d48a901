"""The workload ``training``: library scenarios, what they answer, and what is refused."""

import io

import pytest
from foretrace.reports.texts.answer import answer_sentences
from foretrace.scenarios.cli.terminal.show import print_run_answer
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.studies.run.plan import plan
from foretrace.scenarios.studies.run.run import study
from foretrace.scenarios.studies.sweep.task import evaluate_point, make_task, shared_task_part
from foretrace.scenarios.studies.variants.samples import samples_of
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.errors import BackendError, ForetraceError, ScenarioError
from foretrace.sim.units import seconds
from rich.console import Console

TINY = """
foretrace: 1
name: tiny
workload: {type: training, model: gpt2, batch: 16, sequence: 1024}
cluster:
  nodes: 1
  node:
    gpu: {model: h100-sxm5-80g, count: 4}
    nic: {model: connectx-7, count: 4}
    links: [{from: gpu, to: gpu, via: nvlink4}, {from: gpu, to: nic, via: pcie5-x16}]
  fabric: {library: nccl-nvlink4, switch: tomahawk-5, fidelity: alpha-beta}
backends: {"node*.gpu*": {use: roofline}}
run: {keep: ranks}
"""


def run(*set, text=TINY):
    (point, *_) = build_variants(loads(text, set=set))
    result = point.run()
    samples = samples_of(point, result)
    return point, {name: float(values[0]) for name, values in samples.items()}


def quick(*set):
    return study(loads(TINY, set=["run.quick=true", *set])).summary.to_dict()


def test_more_arithmetic_than_the_gpus_can_do_is_refused_and_an_op_named():
    step = "workload.measured={{iteration_time: {} ms, on: {{nodes: 1}}}}"
    _, told = run()
    blind, mfu = told["iteration_time"] * 1e3, told["mfu"]
    with pytest.raises(BackendError, match=r"hfu of base: 1\.\d+ times .*'compute:.*' takes"):
        quick(step.format(0.8 * mfu * blind))
    high = answer_sentences(quick(step.format(mfu * blind / 0.8)))
    assert any(s.startswith("MFU of 80 % is above the 65 %") for s in high)
    assert not any("MFU" in s for s in answer_sentences(quick()))


def test_ops_that_a_rule_makes_free_may_be_more_than_the_gpus_can_do():
    told = quick("ops=[{where: {kind: compute}, scale: 0.001}]")
    assert told["points"]["base"]["metrics"]["hfu.p50"]["value"] > 1


def test_the_terminal_says_how_well_gpus_are_used_and_how_much_memory_it_takes():
    console = Console(width=80, record=True, file=io.StringIO())
    summary = study(loads(TINY, set=["run.quick=true"])).summary.to_dict()
    print_run_answer(summary, False, console)
    text = console.export_text()
    rows = {line.split("  ")[1].strip() for line in text.splitlines() if line.startswith("  ")}
    assert {"mfu", "hfu", "peak memory", "tokens per second"} <= rows
    assert max(map(len, text.splitlines())) <= 80
    told, fact = (summary["points"]["base"][of]["peak_memory"] for of in ("metrics", "facts"))
    assert fact.startswith(f"{told['value'] / 1e9:.3g} GB (")


def refused(*set):
    with pytest.raises(ForetraceError) as caught:
        run(*set)
    return str(caught.value)


def test_it_says_how_long_how_many_tokens_and_how_well_the_gpus_are_used():
    point, told = run()
    assert point.graph.ranks == 4
    assert told["tokens_per_second"] == pytest.approx(16 * 1024 / told["iteration_time"])
    peak = 989.4e12
    flop = 72 * 16 * 1024 * 12 * 768**2 * (1 + 1024 / (12 * 768) + 50257 / (12 * 12 * 768))
    assert told["mfu"] == pytest.approx(flop / (told["iteration_time"] * 4 * peak), rel=1e-6)
    again = 2 * 16 * 12 * 12 * 64 * 1024**2 / 2  # scores, in the fused backward pass once more
    assert told["hfu"] / told["mfu"] == pytest.approx(1 + again / flop, rel=1e-6)
    assert told["peak_memory"] > 18 * 124_439_808


def test_energy_of_tokens_is_at_most_that_of_all_gpus_at_full_load():
    _, told = run()
    assert told["gpu.energy_per_million_tokens.bound"] == pytest.approx(
        4 * 700 * 1e6 / told["tokens_per_second"]
    )


def test_there_are_as_many_copies_as_gpus_unless_said():
    _, two = run("workload.parallel={tensor: 2}")
    _, told = run("workload.parallel={tensor: 2, data: 2}")
    assert two == told


@pytest.mark.parametrize("by", ["ring", "all-gather", "ulysses"])
def test_ranks_that_share_sequences_need_less_memory_for_the_same_tokens(by):
    text = TINY.replace("model: gpt2", f"model: {{{SIZES}}}")  # whose positions are rotations
    four = "workload.batch=4", "workload.sequence=8192"
    _, alone = run(*four, text=text)
    _, shared = run(*four, f"workload.parallel={{context: 4, context_by: {by}}}", text=text)
    assert shared["peak_memory"] < alone["peak_memory"]
    assert shared["mfu"] < alone["mfu"] < 3 * shared["mfu"]
    told = shared["tokens_per_second"] * shared["iteration_time"]
    assert told == pytest.approx(4 * 8192)


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-h2", "dualpipe"])
def test_a_schedule_without_bubbles_is_quicker(schedule):
    parallel = "workload.parallel={pipeline: 4}"
    _, plain = run(parallel)
    _, told = run(parallel, f"workload.schedule={{use: {schedule}}}")
    assert told["iteration_time"] < plain["iteration_time"]
    assert told["hfu"] > plain["hfu"]


SIZES = "hidden: 768, layers: 12, heads: 12, vocabulary: 50257, inner: 3072"
DESCRIBED = f"{{{SIZES}, tokens: {{positions: 1024}}, block: {{dropout: true}}}}"


def test_a_model_described_in_the_scenario_answers_as_its_name_does():
    text = TINY.replace("model: gpt2", f"model: {DESCRIBED}")
    assert run(text=text)[1] == run()[1]


@pytest.mark.parametrize("name", ["resnet-50", "vit-b-16"])
def test_a_network_of_images_answers_in_images(name):
    text = TINY.replace(
        "gpt2, batch: 16, sequence: 1024", f"{name}, batch: 256, parallel: {{micro_batch: 64}}"
    )
    _, told = run(text=text)
    assert told["samples_per_second"] == pytest.approx(256 / told["iteration_time"])
    assert "tokens_per_second" not in told
    assert 0.01 < told["mfu"] < 1


def test_a_recommender_shares_its_tables():
    text = TINY.replace(
        "gpt2, batch: 16, sequence: 1024", "dlrm, batch: 65536, parallel: {micro_batch: 16384}"
    )
    _, told = run("workload.parallel={expert: 4}", text=text)
    assert told["peak_memory"] > 2 * 128 * 187_767_399 / 4
    told = "tables are divided among all 4 data-parallel ranks, not 1"
    with pytest.raises(ForetraceError, match=told):
        run(text=text)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("gpt2", "workload.sequence: is missing; write the tokens of a sequence"),
        ("resnet-50, sequence: 9", "workload.sequence: the model has its own sequence length"),
        ("{hidden: 8, layrs: 2}, sequence: 9", "workload.model.layrs: is not known; did you mean"),
    ],
)
def test_a_model_and_its_sequence_that_do_not_go_together_are_refused(model, told):
    with pytest.raises(ForetraceError, match=told):
        run(text=TINY.replace("gpt2, batch: 16, sequence: 1024", f"{model}, batch: 16"))


MIXTURE = TINY.replace(
    "model: gpt2", f"model: {{{SIZES}, experts: {{count: 8, chosen: 2, inner: 3072}}}}"
)
FOUR = "workload.parallel={expert: 4}"


def test_tokens_that_crowd_on_few_experts_take_longer():
    _, even = run(FOUR, text=MIXTURE)
    _, alike = run(FOUR, "workload.execution.experts={zipf: 0.0}", text=MIXTURE)
    _, crowded = run(FOUR, "workload.execution.experts={zipf: 1.0}", text=MIXTURE)
    assert alike == even
    assert crowded["iteration_time"] > even["iteration_time"]
    assert crowded["mfu"] < even["mfu"]


def test_recorded_counts_are_the_imbalance_of_the_busiest_ranks_block():
    counts = "[4, 2, 1, 1, 1, 1, 1, 1]"  # 6 of 12 on the first of four ranks: twice the mean
    _, recorded = run(FOUR, f"workload.execution.experts={{recorded: {counts}}}", text=MIXTURE)
    _, said = run(FOUR, "workload.execution.experts.imbalance=2.0", text=MIXTURE)
    assert recorded == said


@pytest.mark.parametrize(
    ("set", "told"),
    [
        (
            ["workload.execution.experts={zipf: 1.0, recorded: [1, 2]}"],
            "has zipf and recorded; keep one",
        ),
        (
            ["workload.execution.experts={recorded: [1, 2]}"],
            "has 2 numbers, and the model 8 experts",
        ),
        (
            ["workload.execution.experts={zipf: 1.0}", "workload.execution.experts.imbalance=2.0"],
            "has imbalance and zipf; keep one",
        ),
    ],
)
def test_a_routing_that_cannot_be_is_refused(set, told):
    with pytest.raises(ForetraceError, match=told):
        run(FOUR, *set, text=MIXTURE)


def test_each_class_of_tensors_may_have_an_element_type_of_its_own():
    _, plain = run()
    _, halved = run("workload.types={gradients: bf16, communication: bf16, moments: bf16}")
    saved = plain["peak_memory"] - halved["peak_memory"]
    assert saved == pytest.approx((2 + 2 * 2) * 124_439_808, rel=1e-6)
    assert halved["exposed_communication"] < plain["exposed_communication"]
    _, fp8 = run("workload.precision=fp8")
    _, said = run("workload.types.products=fp8")
    assert said == fp8
    _, cast = run("workload.types.weights=fp32")
    assert cast["peak_memory"] == plain["peak_memory"]  # no copy, but one cast for products
    eight = "workload.precision=fp8"  # what experts take as it comes
    _, there = run(FOUR, eight, "workload.types.dispatch=fp8", text=MIXTURE)
    _, even = run(FOUR, eight, text=MIXTURE)
    assert there["iteration_time"] < even["iteration_time"]


LORA = "workload.optimizer.adapters={rank: 8, of: [query-key-value]}"


def test_adapters_take_less_time_and_memory_and_say_what_is_trained():
    _, plain = run()
    _, lora = run(LORA)
    assert lora["iteration_time"] < 0.8 * plain["iteration_time"]
    assert lora["peak_memory"] < plain["peak_memory"]
    assert lora["mfu"] < lora["hfu"] < 1
    told = quick(LORA)["points"]["base"]["facts"]["trained"]
    assert told == "294,912 of 124,734,720 parameters (adapters)"


def test_what_is_frozen_may_be_stored_in_fewer_bits():
    eight = "workload.precision=fp8"  # else a copy in bf16 stands beside them
    _, plain = run(LORA, eight)
    _, fp8 = run(LORA, eight, "workload.types={frozen: fp8}")
    assert fp8["peak_memory"] < plain["peak_memory"]


@pytest.mark.parametrize(
    ("set", "told"),
    [
        ([LORA.replace("8", "0")], "'0' must be at least 1"),
        ([LORA.replace("value", "valu")], "did you mean 'query-key-value'"),
        (["workload.types={frozen: fp8}"], "workload.types.frozen: all weights are trained"),
        ([LORA, "workload.model=resnet-50", "workload.sequence=null"],
         "workload.optimizer.adapters: need a transformer"),
        ([LORA, "workload.parallel.tensor=4", "workload.optimizer.adapters.rank=6"],
         "4 ranks do not share adapters of rank 6 evenly; take 2"),
    ],
)  # fmt: skip
def test_adapters_that_cannot_be_are_refused(set, told):
    assert told in refused(*set)


@pytest.mark.parametrize(
    ("set", "told"),
    [
        ("{dispatch: fp8}", "workload.types.dispatch: the model has no experts; remove it"),
        (
            "{products: fp4}",
            "workload.types.scales.block: is 0, but GEMMs in fp4 need one scale per 16 or 32 "
            "numbers",
        ),
        ("{products: fp2}", "fp2"),
        ("{wieghts: bf16}", "did you mean 'workload.types.weights'"),
    ],
)
def test_element_types_that_cannot_be_are_refused(set, told):
    assert told in refused(f"workload.types={set}")


def test_rules_of_ops_change_what_they_name():
    """A rule that scaled ops of a described step changed nothing, and nobody said so."""
    two = "workload.parallel={tensor: 2}"
    _, plain = run(two)
    _, free = run(two, "ops=[{where: {kind: collective}, scale: 0.0}]")
    assert free["exposed_communication"] == 0
    assert free["iteration_time"] == pytest.approx(
        plain["iteration_time"] - plain["exposed_communication"], rel=1e-3
    )


def test_recomputation_costs_time_and_saves_memory():
    _, plain = run()
    _, again = run("workload.memory.recompute=full")
    assert again["iteration_time"] > plain["iteration_time"]
    assert again["mfu"] < plain["mfu"]
    assert again["hfu"] > plain["hfu"] * again["mfu"] / plain["mfu"]
    assert again["peak_memory"] < plain["peak_memory"]


def test_iterations_repeat_and_those_of_warm_up_do_not_count():
    _, one = run()
    point, three = run("workload.iterations={warm_up: 1, measure: 2}")
    assert three["iteration_time"] == pytest.approx(one["iteration_time"], rel=0.01)
    assert len(point.workloads["main"].measure(point.run())["iteration_time"]) == 2


def test_what_does_not_fit_is_refused_with_what_would_make_it_fit():
    told = refused("workload.model=llama3-8b", "workload.sequence=8192")
    assert "does not fit: a rank of stage 0 needs" in told
    assert "it fits with parallel.tensor: 4, or parallel.pipeline: 4, or parallel.zero: 3" in told
    _, anyway = run(
        "workload.model=llama3-8b", "workload.sequence=8192", "workload.memory.must_fit=false"
    )
    assert anyway["peak_memory"] > 80 * 2**30


@pytest.mark.parametrize(
    ("set", "told"),
    [
        (
            "workload.parallel={tensor: 5}",
            "4 GPUs are not a multiple of tensor 5 x pipeline 1; use parallel.tensor: 4",
        ),
        (
            "workload.parallel={tensor: 3}",
            "4 GPUs are not a multiple of tensor 3 x pipeline 1; use 3 GPUs, or parallel.tensor: 2",
        ),
        (
            f"workload={{type: training, model: {{{SIZES.replace('12', '18', 1)}}}, batch: 16, "
            "sequence: 1024, parallel: {pipeline: 4}}",
            "workload.parallel.pipeline: 4 stages do not share 18 layers evenly; take 2",
        ),
        ("workload.parallel={pipeline: 4, data: 2}", "8 ranks, but there are 4 GPUs"),
        ("workload.batch=6", "6 sequences are no multiple of 4 data-parallel ranks x 1"),
        ("workload.model=gpt5", "no model 'gpt5'; did you mean 'gpt2'?"),
        ("workload.parallel.zero=4", "zero"),
    ],
)
def test_what_cannot_be_is_refused_with_the_nearest(set, told):
    assert told in refused(set)


def test_a_precision_that_the_gpu_lacks_is_refused():
    text = TINY.replace("h100-sxm5-80g", "a100-sxm4-80g")
    with pytest.raises(ScenarioError, match="the peak of this GPU in fp8 is unknown"):
        run("workload.precision=fp8", text=text)
    _, bf16 = run("workload.batch=64")
    _, fp8 = run("workload.batch=64", "workload.precision=fp8")
    assert fp8["peak_memory"] != bf16["peak_memory"]


@pytest.mark.parametrize(
    ("set", "told"),
    [
        (["precision=nvfp4"], "in fp4 is unknown; use fp8, or write cluster.node.gpu.peaks.fp4"),
        (
            ["precision=mxfp8"],
            "support one scale per 32 numbers; use fp8, or write cluster.node.gpu.",
        ),
        (["scales.block=128"], "no tensor is in fp8 or fp4; write precision: fp8, or remove it"),
        (["scales.blocks=128"], "did you mean 'workload.types.scales.block'"),
        (["precision=nvfp4", "scales.block=128"], "write 16 (precision: nvfp4) or 32 (mxfp4)"),
    ],
)
def test_numbers_and_scales_that_tensor_cores_do_not_take_are_refused(set, told):
    assert told in refused(*(f"workload.{one}" for one in set))


def seconds_of_ops(point, word):
    """Seconds of the ops of rank 0 whose signatures have a word."""
    detail = point.run().detail
    texts = (detail.ops.signature_text(row) for row in range(len(detail.ops)))
    took = detail.columns.end - detail.columns.start
    return float(seconds(took[[word in text for text in texts]].sum(), detail.tick))


def test_fp4_is_quicker_where_the_gpu_has_it_and_the_quantizing_of_it_is_seen():
    """Llama 3 8B on B200s: at 7.7 TB/s what is read in bf16, and written by rows and columns."""
    text = TINY.replace("h100-sxm5-80g", "b200-sxm-180g")
    large = ["workload.model=llama3-8b", "workload.sequence=8192", "workload.parallel.zero=3"]
    told = {p: run(*large, f"workload.precision={p}", text=text) for p in ("bf16", "fp8", "mxfp4")}
    bf16, fp8, fp4 = (one["iteration_time"] for _, one in told.values())
    assert bf16 > fp8 > fp4
    utilization = told["mxfp4"][1]["mfu"] * fp4 / (told["bf16"][1]["mfu"] * bf16)
    assert utilization == pytest.approx(2.25 / 9)
    point, _ = told["mxfp4"]
    scaled = seconds_of_ops(point, "fused::quantize ")
    tokens, numbers = 4 * 8192, 3 * 4096 + 14336 + 6144 + 2 * 4096 + 28672  # inputs, gradients
    least = 32 * tokens * numbers * (2 + 2 * (0.5 + 1 / 32)) / 7.7e12
    assert least < scaled < 2 * least
    assert scaled < seconds_of_ops(point, "aten::_scaled_mm ")
    assert seconds_of_ops(told["bf16"][0], "fused::quantize ") == 0


def bytes_sent(point, name):
    """B of a rank's collectives of a name whose buffers are bytes, or of bytes each."""
    ops = point.graph.template.programs[0].ops
    texts = [ops.signature_text(row) for row in range(len(ops))]
    return sum(
        size
        for size, text in zip(ops.bytes.tolist(), texts, strict=True)
        if f"collective:{name}" in text and ("fp8[" in text or "uint8[" in text)
    )


def test_scales_of_blocks_are_sent_with_what_they_scale():
    """Of blocks of 32 numbers a byte each: 33 B where 32 were sent, to experts and as weights."""
    b200 = MIXTURE.replace("h100-sxm5-80g", "b200-sxm-180g")
    types = "workload.types={dispatch: fp8, weights: fp8}"
    plain, scaled = (
        run(FOUR, f"workload.precision={name}", types, "workload.parallel.zero=1", text=b200)[0]
        for name in ("fp8", "mxfp8")
    )
    for name in ("all-to-all", "all-gather"):
        assert bytes_sent(plain, name)
        assert bytes_sent(scaled, name) == pytest.approx(33 / 32 * bytes_sent(plain, name))


LARGE = [
    "workload.model={hidden: 2048, layers: 2, heads: 16, vocabulary: 1000, inner: 4096, "
    "experts: {count: 64, chosen: 4, inner: 1024}}",
    "workload.parallel={expert: 16}", "cluster.nodes=4", "workload.batch=16",
]  # fmt: skip


def test_a_low_latency_exchange_takes_its_start_and_bytes_and_has_room_for_every_token():
    """3 of 4 tokens of an expert cross a NIC of 400 Gbit/s; 2 x 2 rows for each expert of each."""
    few = [*LARGE, "workload.sequence=128"]
    _, normal = run(*few)
    point, quick = run(*few, "workload.execution.experts.exchange=low-latency")
    each = 39.6e-6 + 3 / 4 * 128 * 4 * 2048 * 2 / (50e9 * 0.972)
    assert each < seconds_of_ops(point, "all-to-all kernel=low-latency ") / 8 < 1.1 * each
    more = quick["peak_memory"] - normal["peak_memory"]
    assert more == 2 * 2 * 64 * 128 * 2048 * 2
    (stage,) = point.graph.facts["stages"]
    assert stage["memory"]["buffers of the exchange"] == more


@pytest.mark.parametrize(
    ("set", "told"),
    [
        (["workload.execution.experts.exchange=low-latency"], "no token is exchanged; take normal"),
        (
            ["workload.schedule.use=combined-1f1b"],
            "workload.schedule.use: combined-1f1b hides the exchange",
        ),
        (
            [*LARGE, "workload.execution.experts.exchange=low-latency", "workload.sequence=98304"],
            "it fits with execution.experts.exchange: normal",
        ),
        (
            [
                *LARGE,
                "workload.execution.experts.exchange=low-latency",
                "cluster.fabric.library=nccl-tcp",
            ],
            "no low-latency all-to-all; write workload.execution.experts.exchange: normal",
        ),
    ],
)
def test_an_exchange_that_cannot_be_is_refused(set, told):
    assert told in refused(*set)


def test_a_template_runs_without_being_written_out():
    point, _ = run()
    assert point.run().keep == "ranks"
    assert point.graph.template is not None


LIBRARY = {  # ranks of what is built here
    "llama3-8b": (16, ["workload.batch=16"]),
    "llama3-70b": (128, ["workload.batch=64"]),
    "llama3-405b": (256, ["workload.batch=32", "cluster.nodes=32"]),
    "gpt3-175b": (1024, ["workload.batch=128"]),
    "mixtral-8x7b": (32, ["workload.batch=64"]),
    "deepseek-v3": (1024, ["workload.batch=2048", "cluster.nodes=128"]),
    "nvl72": (256, ["workload.batch=256"]),
    "million-tokens": (64, ["workload.batch=2"]),
    "bert-large": (8, ["workload.batch=512"]),
    "dlrm": (8, []),
    "megatron-7b": (128, ["workload.batch=128"]),
    "megatron-18b": (256, ["workload.batch=128"]),
    "megatron-22b": (8, []),
    "megatron-39b": (512, ["workload.batch=512"]),
    "megatron-175b": (64, []),
    "megatron-530b": (280, ["workload.batch=35"]),
    "megatron-1t": (512, ["workload.batch=64"]),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_a_scenario_of_the_library_asks_a_question_expects_an_answer_and_is_built(name):
    scenario = load(name)
    assert scenario.question.endswith("?")
    assert scenario.expect
    ranks, small = LIBRARY[name]
    point = build_variants(load(name, set=["what_if=[]", *small]))[0]
    assert point.graph.ranks == ranks


MISSED = {  # by how much: docs/training/accuracy.md
    "gpt3-175b": ["hfu.p50 <= 49 %"],
    "llama3-405b": ["mfu.p50 <= 47.3 %"],
    "nvl72": ["tokens_per_second.p50 <= 964 ktoken/s"],
    "dlrm": ["samples_per_second.p50 <= 19.8e6 1/s"],
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", LIBRARY)
def test_a_scenario_of_the_library_meets_what_it_expects_but_for_what_is_known(name):
    point = build_variants(load(name, set=["what_if=[]"]))[0]
    samples = samples_of(point, point.run())
    missed = [
        condition.that.text
        for condition in point.scenario.expect
        if not condition.that.holds(float(samples[condition.that.name.removesuffix(".p50")][0]))
    ]
    assert missed == MISSED.get(name, [])


def test_a_variant_of_more_machines_trains_on_all_of_them():
    more = "what_if=[{name: twice, set: {cluster.nodes: 2}}]"
    base, twice = build_variants(loads(TINY, set=[more]))
    assert (base.graph.ranks, twice.graph.ranks) == (4, 8)
    _, alone = run("cluster.nodes=2")
    told = samples_of(twice, twice.run())
    assert float(told["iteration_time"][0]) == alone["iteration_time"]


def test_a_variant_on_a_smaller_gpu_is_refused_where_it_does_not_fit():
    small = "what_if=[{name: small, set: {cluster.node.gpu.memory: 2 GB}}]"
    with pytest.raises(ScenarioError, match="does not fit"):
        build_variants(loads(TINY, set=[small]))


def test_a_sweep_over_machines_trains_on_all_of_them():
    vary = "sweep={vary: {cluster.nodes: [1, 2]}}"
    scenario = loads(TINY, set=[vary, "run.quick=true"])
    shared = shared_task_part(scenario)
    ranks = [
        evaluate_point(make_task(shared, {"cluster.nodes": nodes}))["ranks"] for nodes in (1, 2)
    ]
    assert ranks == [4, 8]


def test_a_plan_counts_that_models_are_asked_about_every_op():
    """A recording of as many ops is run in a fifth of the time."""
    told = plan(loads(TINY))
    assert told.seconds / told.op_runs > 2e-6
    recorded = plan(load("first"))
    assert recorded.seconds / recorded.op_runs < 1e-6


def test_a_template_needs_little_memory_and_its_rows_as_much_as_they_take(cli, tmp_path):
    """11.4 million ops: some 0.4 GB as they run, 6 GB where each is held."""
    many = ("cluster.nodes=32", "workload.batch=512", "workload.iterations={measure: 60}")
    (tmp_path / "s.yaml").write_text(TINY)
    words = [word for one in (*many, "run.memory=600 MB") for word in ("--set", one)]
    assert plan(loads(TINY, set=many)).memory < 600e6
    assert cli("validate", tmp_path / "s.yaml", *words)[0] == 0
    code, _, told = cli("validate", tmp_path / "s.yaml", *words, "--set", "run.keep=ops")
    assert code == 2
    assert "ops need about" in told
    with pytest.raises(ForetraceError, match=r"has to be expanded, since .* GB are free"):
        run(*many, "run.memory=600 MB", "run.engine=reference")


def test_weights_gathered_behind_the_update_are_waited_for_by_all():
    shared = "workload.parallel.zero=1"
    ahead, behind = (
        run(shared, f"workload.optimizer.gather_ahead={on}")[1] for on in ("true", "false")
    )
    assert ahead["iteration_time"] < behind["iteration_time"]
    assert ahead["exposed_communication"] < behind["exposed_communication"]
    assert run(shared)[1] == ahead
