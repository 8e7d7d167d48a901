"""Tests of programs that are no part of the product run nightly; some need real measurements."""

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DATA = Path(os.environ.get("FORETRACE_DATA", HERE.parents[2] / "shared" / "data"))


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.nightly)


@pytest.fixture(scope="session")
def data():
    """The folder of measurements; tests that need it are skipped where it is absent."""
    if not DATA.is_dir():
        pytest.skip("no measurements here: set FORETRACE_DATA to their folder")
    return DATA
