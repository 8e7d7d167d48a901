"""Where real measurements lie, for the tests that are judged by them."""

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="session")
def data():
    """The folder of measurements; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("FORETRACE_DATA", BESIDE))
    if not folder.is_dir():
        pytest.skip("no measurements here: set FORETRACE_DATA to their folder")
    return folder
