"""Two processes predicted from a recording of one, blind: beside local + all-reduce."""

import importlib.util
import sys
from pathlib import Path

import foretrace
import pytest

SCRIPT = Path(foretrace.__file__).parent / "benchmarks" / "two_from_one.py"


@pytest.fixture(scope="module")
def script():
    if not SCRIPT.is_file():
        pytest.skip("benchmarks are not installed")
    spec = importlib.util.spec_from_file_location("two_from_one", SCRIPT)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["resnet50", "gpt", "comm-heavy, loopback"])
def test_over_the_loopback_the_model_errs_less_than_a_sum(script, name):
    """Blind; the starts of the truth differ by 10 to 19 %."""
    variant = script.VARIANTS[name]
    steps = script.modelled(variant), script.summed(variant)
    model, summed = (step / script.truth(variant) - 1 for step in steps)
    assert abs(model) < 0.6 * abs(summed)
    low, high = script.interval(variant, steps[0])
    assert low < model < high


def test_a_memory_in_common_only_ever_costs_time(script):
    variant = script.VARIANTS["resnet50"]
    apart, together = (script.predicted(variant, shared) for shared in (False, True))
    assert apart <= together < 1.02 * apart


def test_the_all_reduces_of_a_step_are_those_of_its_buckets(script):
    assert script.all_reduces(script.VARIANTS["gpt"]) == pytest.approx(0.019, rel=0.1)
    slow = script.all_reduces(script.VARIANTS["comm-heavy"])
    assert slow == pytest.approx(4 * 4_224_512 / 0.125e9, rel=0.1)  # both ways at 2 Gbit/s
