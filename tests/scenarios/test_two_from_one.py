"""Two processes predicted from a recording of one, blind: beside local + all-reduce."""

import importlib.util
from pathlib import Path

import foretrace
import pytest

SCRIPT = Path(foretrace.__file__).parent / "benchmarks" / "two_from_one.py"


@pytest.fixture(scope="module")
def script():
    if not SCRIPT.is_file():
        pytest.skip("benchmarks are not installed")
    spec = importlib.util.spec_from_file_location("two_from_one", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
