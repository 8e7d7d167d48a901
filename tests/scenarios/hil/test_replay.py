"""An as-recorded run says that it is a replay; whatever is changed makes it a prediction."""

import pytest
from foretrace.reports.texts.answer import trust_sentence
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.run.run import study

GPT = """\
foretrace: 1
name: again
workload: {trace: foretrace:gpt, recorded_on: {device: epyc-zen4-core}}
cluster: {nodes: 1, node: {gpu: {model: epyc-zen4-core, count: 1}, host: epyc-zen4-vm}}
"""


def told(text):
    return study(loads(text)).summary.to_dict()


def test_what_is_only_played_again_is_a_replay():
    summary = told(GPT)
    assert summary["provenance"]["calibration"].startswith("replay: recorded times")
    assert trust_sentence(summary).startswith(
        "This is a replay: recorded times on the recorded machine"
    )


@pytest.mark.parametrize(
    "changed",
    [
        GPT.replace("-vm}", "-vm}, override: {node0.gpu0: {slowdown: 2}}"),
        GPT + "ops: [{where: {kind: compute}, scale: 2}]\n",
    ],
)
def test_what_is_changed_is_none(changed):
    assert trust_sentence(told(changed)).startswith("This is a blind prediction")
