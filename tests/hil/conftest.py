"""Locks of devices lie in a folder of this run, so that two runs of these tests do not meet."""

import os
import tempfile

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_locks():
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        yield os.environ
