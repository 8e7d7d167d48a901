"""An agent behind a real ssh: a server of our own on this machine, for one key, on a free port.

Where sshd is not installed it is unpacked from its package; where that cannot be, this says so.
"""

import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from foretrace.hil.agent.address import Address
from foretrace.hil.agent.bundle import write_bundle
from foretrace.hil.agent.client import RemoteDriver
from foretrace.hil.sample import Request
from foretrace.sim.errors import DriverFault
from ssh_server import OURS, unpacked

pytestmark = pytest.mark.hardware("ssh")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A folder with keys and a client's settings for a server that runs."""
    if shutil.which("ssh") is None:
        pytest.skip("NO SSH HERE; apt install openssh-client")
    folder = tmp_path_factory.mktemp("ssh")
    program, libraries = unpacked(folder)
    for name in ("host", "mine", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name],
                       check=True)  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    (folder / "sshd").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/mine.pub\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nPermitRootLogin prohibit-password\n"
    )
    host = (folder / "host.pub").read_text()
    (folder / "known").write_text(f"[127.0.0.1]:{port} {host}")
    for key in ("mine", "other"):
        (folder / f"{key}.config").write_text(
            f"Host *\n Port {port}\n User {getpass.getuser()}\n IdentityFile {folder}/{key}\n"
            f" IdentitiesOnly yes\n UserKnownHostsFile {folder}/known\n"
        )
    command = [program, "-D", "-e", "-f", str(folder / "sshd")]
    if os.geteuid() == 0:
        command = ["unshare", "--mount", "sh", "-c", OURS, "sh", *command]
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
    with (
        (folder / "said").open("w") as said,
        subprocess.Popen(command, cwd=folder, env=environment, stderr=said) as running,
    ):
        listening(port, running, folder / "said")
        yield folder
        running.terminate()


def listening(port, running, said, tries=200):
    """Wait until somebody answers there."""
    for _ in range(tries):
        if running.poll() is not None:
            pytest.skip(f"NO SSH SERVER STARTS HERE: {said.read_text().strip()}")
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(said.read_text())


@pytest.fixture
def far(server, tmp_path, monkeypatch):
    """An agent there, reached by the user's own ssh with settings of this test."""

    def address(key="mine", **more):
        ssh = tmp_path / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {server}/{key}.config "$@"\n')
        ssh.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        agent = tmp_path / "foretrace-agent.pyz"
        write_bundle(agent)
        told = {"ssh": "127.0.0.1", "python": sys.executable, "agent": str(agent), **more}
        return Address("far", **told)

    return address


def test_a_driver_answers_through_ssh_and_ends_with_the_connection(far):
    remote = RemoteDriver(far(environment={"FORETRACE_MARK": "a b; c"}).open(), "host")
    remote.open({})
    (sample,) = remote.timing([Request("host:chase uint8[4096]", 3)])
    assert len(sample.ns) == 3
    assert (sample.ns > 0).all()
    mine = agents(b"FORETRACE_MARK=a b; c")
    assert len(mine) == 1
    remote.close()
    assert gone(mine[0])


def test_an_agent_ends_when_the_connection_is_cut_in_the_middle(far):
    remote = RemoteDriver(far(environment={"FORETRACE_MARK": "cut"}).open(), "host")
    remote.open({})
    (there,) = agents(b"FORETRACE_MARK=cut")
    remote.channel.child.kill()
    with pytest.raises(DriverFault, match="died: the agent ended"):
        remote.timing([Request("host:chase uint8[4096]", 3)])
    assert gone(there)
    remote.channel.close()


def test_a_key_that_the_machine_does_not_know_is_told_in_its_own_words(far):
    with pytest.raises(DriverFault, match=r"died: .*code 255.*Permission denied"):
        RemoteDriver(far("other").open(), "host")


def test_an_agent_that_was_not_copied_is_told_in_its_own_words(far):
    with pytest.raises(DriverFault, match=r"died: .*can't open file .*nowhere\.pyz"):
        RemoteDriver(far(agent="/nowhere.pyz").open(), "host")


def agents(mark):
    """Processes that have such a variable and are Python."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (
                mark in (process / "environ").read_bytes().split(b"\0")
                and b"python" in (process / "cmdline").read_bytes().split(b"\0")[0]
            ):
                found.append(int(process.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def gone(process, tries=400):
    """Whether a process ends."""
    for _ in range(tries):
        if not Path(f"/proc/{process}").exists():
            return True
        time.sleep(0.05)
    return False
