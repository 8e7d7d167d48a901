"""Adapters (LoRA): what is trained, what is kept, what is exchanged, and what is refused."""

from collections import Counter
from dataclasses import replace

import pytest
from foretrace.models.training.description.description import (
    Adapters,
    AttentionOptions,
    BlockOptions,
    Experts,
    TokenOptions,
    Transformer,
)
from foretrace.models.training.description.description_reader import read_description
from foretrace.models.training.description.model_zoo import model
from foretrace.models.training.layer.layers import dense_layer
from foretrace.models.training.layer.model_size import model_flop, parameters, trained_parameters
from foretrace.models.training.layer.operations import Split
from foretrace.models.training.layer.precision import PRECISIONS
from foretrace.models.training.plan.parallel_plan import ParallelPlan
from foretrace.models.training.plan.rank_memory import rank_memory
from foretrace.models.training.program.hardware_flop import hardware_flop
from foretrace.models.training.program.step_graph import step_graph
from foretrace.sim.errors import PlanError, ScenarioError
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.signature import WIDTH

ATTENTION = Adapters(rank=4, of=("query-key-value", "attention-output"))
EVERY = replace(ATTENTION, of=(*ATTENTION.of, "feed-forward-in", "feed-forward-out"))
PLAIN = Transformer(
    hidden=64, layers=4, heads=8, vocabulary=128, inner=256,
    attention=AttentionOptions(key_heads=4), block=BlockOptions("rms", "none", gated=True),
    tokens=TokenOptions(tied=False),
)  # fmt: skip
TINY = replace(PLAIN, adapters=ATTENTION)
SPLIT = Split(batch=1, sequence=32)
SIZES = {"hidden": 8, "layers": 2, "heads": 2, "vocabulary": 10, "inner": 32}


def test_gpt2_trains_as_many_parameters_as_published():
    """PEFT's print_trainable_parameters of gpt2, rank 8 on c_attn, the product of queries, keys and
    values: trainable params: 294,912 || all params: 124,734,720."""
    lora = replace(model("gpt2"), adapters=Adapters(rank=8, of=("query-key-value",)))
    assert (trained_parameters(lora), parameters(lora)) == (294_912, 124_734_720)


def test_a_pair_has_rank_times_inputs_and_outputs():
    """Hu et al. 2021, arXiv:2106.09685, section 4.1: B is d x r, A is r x k."""
    llama = replace(model("llama2-70b"), adapters=replace(EVERY, rank=16))
    widths = (8192 + 10240) + (8192 + 8192) + (8192 + 2 * 28672) + (28672 + 8192)
    assert trained_parameters(llama) == 80 * 16 * widths
    assert parameters(llama) - trained_parameters(llama) == parameters(model("llama2-70b"))


@pytest.mark.parametrize("tensor", [2, 4])
def test_tensor_parallel_ranks_share_adapters(tensor):
    model = replace(TINY, adapters=EVERY)
    one = dense_layer(model, SPLIT)
    each = dense_layer(model, replace(SPLIT, tensor=tensor))
    assert each.weights * tensor == one.weights


def test_frozen_products_make_the_gradient_of_their_input_and_no_other():
    frozen, plain = (dense_layer(m, SPLIT).backward for m in (TINY, PLAIN))
    of_weights = [w.label for w in frozen if w.of_weights]
    assert of_weights
    assert all("adapter" in label for label in of_weights)
    kept = [w for w in frozen if "adapter" not in w.label]
    assert kept == [w for w in plain if not w.of_weights]


def test_model_flop_are_two_thirds_where_weights_are_frozen():
    """Scores have no weights: forward once, backward twice, as ever."""
    rank, sequence, p = ATTENTION.rank, 32, PLAIN
    products = (
        p.layers * p.hidden * (p.query_width + 2 * p.key_width + p.query_width + 3 * p.inner)
        + p.hidden * p.vocabulary
    )
    thin = p.layers * rank * ((p.hidden + p.query_width + 2 * p.key_width) + 2 * p.hidden)
    scores = p.layers * sequence * p.hidden  # twice half of them
    expected = sequence * (4 * products + 6 * thin + 6 * scores)
    assert model_flop(TINY, sequence) == pytest.approx(expected, rel=1e-12)


def test_hardware_does_what_the_model_needs_and_scores_again():
    plan = ParallelPlan(batch=1, sequence=32)
    again = hardware_flop(TINY, plan) - model_flop(TINY, 32)
    plain = hardware_flop(PLAIN, plan) - model_flop(PLAIN, 32)
    assert again == pytest.approx(plain)


def test_what_no_gradient_needs_is_not_kept():
    """Of a layer: inputs of norms, queries, keys, values and sums of scores, gate and value of the
    network, and of each adapter its input and what is between its two products."""
    tokens, h, wide, two = 32, 64, PLAIN.query_width + 2 * PLAIN.key_width, 2
    core = two * tokens * wide + 4 * tokens * PLAIN.heads
    adapters = two * tokens * (2 * h + 2 * ATTENTION.rank)
    expected = 2 * two * tokens * h + core + two * tokens * 2 * PLAIN.inner + adapters
    assert dense_layer(TINY, SPLIT).kept == expected
    plain = dense_layer(PLAIN, SPLIT).kept
    assert plain == expected - adapters + two * tokens * (3 * h + PLAIN.inner)


def test_what_attention_made_is_kept_without_an_adapter_that_does():
    one = replace(TINY, adapters=replace(ATTENTION, of=("query-key-value",)))
    more = dense_layer(TINY, SPLIT).kept - dense_layer(one, SPLIT).kept
    assert more == 2 * 32 * ATTENTION.rank


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_data_parallel_ranks_exchange_adapters_alone(zero):
    plan = ParallelPlan(batch=4, sequence=32, data=4, zero=zero)
    sizes = Counter()
    for signature, numbers in exchanged_numbers(TINY, plan):
        sizes[signature] += numbers
    trained = trained_parameters(TINY)
    frozen = parameters(TINY) - trained
    reduced = "reduce-scatter" if zero else "all-reduce"
    assert sizes[reduced, "fp32"] == trained
    gathered = {0: 0, 1: trained, 3: 2 * (trained + frozen)}  # forward, backward
    assert sizes["all-gather", "bf16"] == gathered[zero]


def exchanged_numbers(model, plan):
    """Name and element type, and numbers, of each collective of a rank."""
    ops = step_graph(model, plan).blocks[0].programs[0].ops
    for row in range(len(ops)):
        if ops.kind[row] == Kind.COLLECTIVE:
            name, operand = ops.signatures[ops.signature[row]].removeprefix("collective:").split()
            dtype = operand.split("[")[0]
            yield (name, dtype), round(ops.bytes[row] / WIDTH[dtype])


@pytest.mark.parametrize(
    "plan",
    [
        ParallelPlan(batch=8, sequence=32, tensor=2, sequence_parallel=True, data=2, zero=1),
        ParallelPlan(batch=8, sequence=32, tensor=4, data=2, zero=2),
        ParallelPlan(batch=8, sequence=32, context=2, data=2, zero=3),
        ParallelPlan(batch=8, sequence=32, pipeline=2, chunks=2, data=2, zero=1),
        ParallelPlan(batch=8, sequence=32, pipeline=2, schedule="zb-h1", data=2, zero=1),
        ParallelPlan(batch=8, sequence=32, pipeline=2, recompute="full", offload=True, data=2),
    ],
)
@pytest.mark.parametrize("tied", [True, False])
def test_adapters_go_with_every_kind_of_parallelism(plan, tied):
    model = replace(TINY, adapters=EVERY, tokens=TokenOptions(tied=tied))
    graph = step_graph(model, plan)
    assert graph.ranks == plan.ranks
    stages = [rank_memory(model, plan, stage) for stage in range(plan.pipeline)]
    shares = plan.copies if plan.zero or plan.offload else 1
    moments = sum(one.optimizer + one.host for one in stages) * plan.tensor
    trained = trained_parameters(model)
    bytes_each = 16 if plan.offload else 12 / shares
    assert moments == pytest.approx(bytes_each * trained)


def test_no_embedding_is_exchanged_where_it_is_not_trained():
    plan = ParallelPlan(batch=4, sequence=32, pipeline=2)
    labels = step_graph(replace(TINY, tokens=TokenOptions(tied=True)), plan).labels
    assert not any("embedding gradients" in str(label) for label in labels)
    tied, untied = (
        rank_memory(replace(TINY, tokens=TokenOptions(tied=t)), plan, 1).weights
        for t in (True, False)
    )
    assert tied == untied  # a copy of the embedding in place of the output layer's own


def test_frozen_weights_are_in_a_type_of_their_own():
    plan = ParallelPlan(batch=1, sequence=32, precision=PRECISIONS["fp8"])
    fp8 = replace(plan, precision=replace(plan.precision, frozen="fp8"))
    trained = trained_parameters(TINY)
    frozen = parameters(TINY) - trained
    one, other = (rank_memory(TINY, p, 0) for p in (plan, fp8))
    assert one.weights == 2 * trained + (2 + 2) * frozen  # and by rows and columns in fp8
    assert other.weights == 2 * trained + 2 * frozen
    assert one.gradients == 4 * trained
    assert one.optimizer == 12 * trained


@pytest.mark.parametrize(
    ("adapters", "message"),
    [
        ({"rank": 0, "of": ["query-key-value"]}, r"adapters.rank: is 0; write a whole number"),
        ({"rank": 4, "of": []}, r"adapters.of: is empty; name one of query-key-value, "),
        ({"rank": 4, "of": ["query-key"]}, r"adapters.of\[0\]: .* did you mean 'query-key-value'"),
        ({"rank": 4}, r"adapters: has no of; add it"),
    ],
)
def test_adapters_of_nothing_are_refused(adapters, message):
    with pytest.raises(ScenarioError, match=message):
        read_description({**SIZES, "adapters": adapters})


def test_adapters_of_products_that_a_model_lacks_are_refused():
    experts = {"count": 4, "chosen": 2, "inner": 8}
    for more, name, message in (
        ({"experts": experts}, "feed-forward-in", "adapters of experts are not supported"),
        ({"latent": {"query_rank": 4, "key_rank": 4, "plain": 4, "rotary": 2, "value": 4}},
         "query-key-value", "latent attention makes queries"),
    ):  # fmt: skip
        with pytest.raises(ScenarioError, match=message):
            read_description({**SIZES, **more, "adapters": {"rank": 4, "of": [name]}})


def test_experts_may_be_frozen():
    model = replace(PLAIN, experts=Experts(4, 2, 64), adapters=ATTENTION)
    plan = ParallelPlan(batch=8, sequence=32, data=4, expert=2, zero=3)
    assert trained_parameters(model) == trained_parameters(TINY)
    names = Counter(name for (name, dtype), _ in exchanged_numbers(model, plan) if dtype == "bf16")
    assert names["all-gather"] > 0


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (ParallelPlan(batch=8, sequence=32, tensor=8), "8 ranks do not share adapters of rank 4"),
        (ParallelPlan(batch=8, sequence=32, whole_layers=True), "leave optimizer.adapters out"),
    ],
)
def test_plans_that_adapters_do_not_go_with_are_refused(plan, message):
    with pytest.raises(PlanError, match=message):
        plan.check(TINY)
