"""Two processes predicted from a recording of one, blind: within the noise of the truth."""

import importlib.util
from pathlib import Path

import foretrace
import numpy as np
import pytest

SCRIPT = Path(foretrace.__file__).parent / "benchmarks" / "two_from_one.py"
ERROR = 0.03  # reached: 0.9 % and 1.7 %; starts of the truth differ by 4 and 12 %


@pytest.fixture(scope="module")
def script():
    if not SCRIPT.is_file():
        pytest.skip("benchmarks are not installed")
    spec = importlib.util.spec_from_file_location("two_from_one", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("model", ["resnet50", "gpt"])
def test_the_step_of_two_is_told_from_that_of_one(script, model):
    truth = np.median(script.measured(f"ddp-{model}", "untraced"))
    alone = np.median(script.measured(model, "untraced"))
    step = script.predicted(model, shared=True)
    assert abs(step / truth - 1) < ERROR < 1 - alone / truth


def test_a_memory_in_common_only_ever_costs_time(script):
    apart, together = (script.predicted("resnet50", shared) for shared in (False, True))
    assert apart < together < 1.02 * apart
