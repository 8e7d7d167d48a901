"""Agents that torchrun starts: one a rank, each on a socket of its own."""

import os
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest
from foretrace.hil.agent.address import Address
from foretrace.hil.agent.bundle import write_bundle
from foretrace.hil.agent.client import RemoteDriver
from foretrace.hil.sample import Request

pytestmark = pytest.mark.hardware("torchrun")
RANKS = 2


@pytest.fixture
def sockets(tmp_path):
    """Of each rank, with the file of their token."""
    if find_spec("torch") is None:
        pytest.skip(f"NO TORCH in {sys.executable}; pip install 'foretrace[torch]'")
    agent, token = tmp_path / "foretrace-agent.pyz", tmp_path / "token"
    write_bundle(agent)
    token.touch(mode=0o600)
    token.write_text("0123456789abcdef0123")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
               f"--nproc_per_node={RANKS}", str(agent), "--listen", f"{tmp_path}/ft-{{rank}}.sock",
               "--token-file", str(token)]  # fmt: skip
    made = [tmp_path / f"ft-{rank}.sock" for rank in range(RANKS)]
    with (
        (tmp_path / "said").open("w") as said,
        subprocess.Popen(command, stderr=said, cwd=tmp_path) as launcher,
    ):
        while not all(path.exists() for path in made):
            assert launcher.poll() is None, (tmp_path / "said").read_text()
            time.sleep(0.1)
        yield made, token
        launcher.terminate()
    assert not any(path.exists() for path in made)


def test_every_rank_is_an_agent_with_a_device_of_its_own(sockets):
    made, token = sockets
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < RANKS:
        pytest.skip(f"{len(cores)} CORES HERE, for {RANKS} ranks")
    remotes = [
        RemoteDriver(Address(f"rank{i}", socket=str(path), token_file=str(token)).open(), "host")
        for i, path in enumerate(made)
    ]
    for core, remote in zip(cores, remotes, strict=False):
        remote.open({"core": core})
    devices = [remote.describe()["device"] for remote in remotes]
    assert len(set(devices)) == RANKS
    for remote in remotes:
        (sample,) = remote.timing([Request("host:chase uint8[4096]", 3)])
        assert (sample.ns > 0).all()
    for remote in remotes:
        remote.close()
