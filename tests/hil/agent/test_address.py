"""Where agents are: the user's list and nothing else; sockets that only this user may use."""

import os
import socket as sockets
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from by_day import every
from foretrace.hil.agent import protocol
from foretrace.hil.agent.address import Address, listed_agents
from foretrace.hil.agent.bundle import write_bundle
from foretrace.hil.agent.client import RemoteDriver
from foretrace.hil.agent.server import path_with_rank
from foretrace.hil.agent.transport import connect_unix_socket
from foretrace.hil.connection import connect_driver
from foretrace.hil.private_file import read_token
from foretrace.hil.sample import Request
from foretrace.sim.errors import DriverFault, ScenarioError

TOKEN = "0123456789abcdef0123"


@pytest.fixture
def listed(tmp_path, monkeypatch):
    """Writes the user's list."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "foretrace").mkdir()

    def write(text):
        (tmp_path / "foretrace" / "agents.yaml").write_text(text)

    return write


def test_agents_come_from_the_users_list(listed):
    listed(
        "agents: {box: {python: /usr/bin/python3, environment: {N: 1}}, far: {ssh: a@b, agent: c}}"
    )
    found = listed_agents()
    assert found["box"].environment == {"N": "1"}
    assert found["far"].command()[-2:] == ["a@b", "python3 c --stdio"]
    with pytest.raises(DriverFault, match="no agent named 'bx'; did you mean 'box'"):
        connect_driver("host", "bx")


def test_without_a_list_an_agent_is_missing_and_the_place_of_the_list_is_told(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(DriverFault, match=r"no agent named 'box'; write it into .*agents\.yaml"):
        connect_driver("host", "box")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agents: [a]", "write 'agents:' and a mapping"),
        ("agent: {}", "write 'agents:' and a mapping"),
        ("agents: {a: {shell: rm}}", "agent a is .*; write a mapping with keys out of ssh, python"),
        ("agents: {a: {load: x}}", "'load' is a list"),
        ("agents: {a: {socket: s}}", "'socket' and 'token_file' go together"),
        ("agents: {a: {ssh: b}}", "'ssh' and 'agent' go together"),
        ("agents: {a: {ssh: -oProxyCommand=x, agent: c}}", "write user@host"),
        ("agents: {a: {ssh: 'b; rm -r x', agent: c}}", "write user@host"),
        ("agents: {a: [", "is not valid YAML"),
    ],
)
def test_a_list_that_is_wrong_says_where(listed, text, said):
    listed(text)
    with pytest.raises(ScenarioError, match=said):
        listed_agents()


@pytest.mark.parametrize("mode", [0o666, 0o664])
def test_a_list_that_others_may_write_is_refused(listed, tmp_path, mode):
    listed("agents: {torch: {python: ~/bin/python}}")
    (tmp_path / "foretrace" / "agents.yaml").chmod(mode)
    with pytest.raises(ScenarioError, match=r"other users may write this file, .* chmod go-w"):
        listed_agents()


@pytest.mark.parametrize("key", ["load: [mine.py]", "python: /bin/python", "environment: {A: b}"])
def test_settings_that_a_lab_machine_ignores_are_refused(listed, key):
    listed(f"agents: {{virtual: {{lab: uml, {key}}}}}")
    with pytest.raises(ScenarioError, match=f"ignores {key.partition(':')[0]}; remove"):
        listed_agents()


def test_the_command_that_ssh_runs_is_shell_quoted():
    far = Address("far", ssh="me@box", agent="a b; reboot", environment={"X": "$(id)"})
    assert far.command()[:5] == ["ssh", "-T", "-o", "BatchMode=yes", "--"]
    assert far.command()[-1] == "env 'X=$(id)' python3 'a b; reboot' --stdio"


def test_a_token_that_others_may_read_is_refused(tmp_path):
    path = tmp_path / "token"
    with pytest.raises(DriverFault, match=r"denied: .*No such file"):
        read_token(path)
    path.write_text(TOKEN)
    path.chmod(0o644)
    with pytest.raises(DriverFault, match="others may read it; chmod 600"):
        read_token(path)
    path.chmod(0o600)
    assert read_token(path) == TOKEN
    path.write_text("short")
    with pytest.raises(DriverFault, match="write at least 16"):
        read_token(path)


def listener(socket, token):
    """Start an agent on a Unix socket, and wait until it listens."""
    command = [sys.executable, "-P", "-m", "foretrace.hil.agent", "--listen", str(socket)]
    agent = subprocess.Popen([*command, "--token-file", str(token)], stderr=subprocess.PIPE)
    while not listens(socket) and agent.poll() is None:
        time.sleep(0.02)
    return agent


def listens(socket):
    """Whether somebody listens there; the name alone is there before, and after a kill."""
    told = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    return ["00010000", str(socket)] in [[words[3], words[-1]] for words in told]


@pytest.fixture
def listening(tmp_path):
    """An agent on a Unix socket, and the file of its token."""
    socket, token = tmp_path / "s", tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    with listener(socket, token) as agent:
        yield socket, token, agent
        agent.terminate()
        assert b"Traceback" not in agent.stderr.read()
    assert not socket.exists()


def test_a_socket_serves_this_user_and_this_token_only(listening):
    socket, token, _ = listening
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    for _ in range(2):  # one client after the other
        remote = RemoteDriver(
            Address("s", socket=str(socket), token_file=str(token)).open(), "host"
        )
        remote.open({})
        assert remote.timing([Request("host:chase uint8[4096]", 2)])[0].ns.min() > 0
        remote.close()
    with pytest.raises(DriverFault, match=r"^denied: the token is wrong"):
        RemoteDriver(connect_unix_socket(socket, "x" * 20), "host")


NESTED = b"[" * 100_000 + b"]" * 100_000
INFINITE = b'{"verb": "probe", "driver": 1e999, "arrays": []}'


def raw_frame(text, magic=protocol.MAGIC):
    return protocol.HEAD.pack(magic, len(text), 0) + text


@pytest.mark.parametrize("frame", [raw_frame(NESTED), raw_frame(INFINITE), raw_frame(b"", b"HTTP"),
                                   raw_frame(b'{"token": "\xc3\xa4", "arrays": []}'),
                                   protocol.HEAD.pack(protocol.MAGIC, 2**32 - 1, 0), b"FT",
                                   b""])  # fmt: skip
@pytest.mark.parametrize("token_before", every(2, [True, False]))
def test_after_a_malformed_client_a_socket_serves_the_next_one(listening, frame, token_before):
    socket, token, agent = listening
    with sockets.socket(sockets.AF_UNIX) as client:
        client.connect(str(socket))
        client.sendall(protocol.pack_frame({"token": TOKEN}) if token_before else b"")
        client.sendall(frame)
        client.shutdown(sockets.SHUT_WR)
        with client.makefile("rb") as replies:
            told = replies.read()
    kinds = (b'"protocol"', b'"denied"', b'"oversized"')
    assert token_before or len(frame) < protocol.HEAD.size or any(kind in told for kind in kinds)
    remote = RemoteDriver(Address("s", socket=str(socket), token_file=str(token)).open(), "host")
    assert remote.probe()
    remote.close()
    assert agent.poll() is None


def test_a_socket_that_is_listened_on_is_not_taken_and_a_dead_one_is(listening, tmp_path):
    socket, token, _ = listening
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "foretrace.hil.agent", "--listen", str(socket),
         "--token-file", str(token)], stderr=subprocess.PIPE, text=True
    ) as second:  # fmt: skip
        assert "busy" in second.stderr.read()
    assert second.returncode == 4
    dead = tmp_path / "dead"
    with listener(dead, token) as agent:
        agent.kill()
        agent.wait()
        assert dead.exists()
    with listener(dead, token) as agent:
        RemoteDriver(connect_unix_socket(dead, TOKEN), "host").close()
        agent.terminate()


def test_a_rank_of_a_launcher_has_a_socket_of_its_own(monkeypatch):
    for name in ("RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(DriverFault, match="no launcher set RANK or SLURM_PROCID"):
        path_with_rank(Path("/run/ft-{rank}.sock"))
    monkeypatch.setenv("SLURM_PROCID", "3")
    assert path_with_rank(Path("/run/ft-{rank}.sock")) == Path("/run/ft-3.sock")
    monkeypatch.setenv("RANK", "1")
    assert path_with_rank(Path("/run/ft-{rank}.sock")) == Path("/run/ft-1.sock")
    monkeypatch.setenv("RANK", "../x")
    with pytest.raises(DriverFault, match="no launcher"):
        path_with_rank(Path("/run/ft-{rank}.sock"))


def test_a_missing_socket_is_reported_as_no_agent_listening(tmp_path):
    with pytest.raises(DriverFault, match=r"missing: .*No such file.*hil agent --listen"):
        connect_unix_socket(tmp_path / "none", TOKEN)


def test_a_socket_of_another_user_is_not_used(listening, monkeypatch):
    socket, _, _ = listening
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(DriverFault, match=r"missing: .*s: "):
        connect_unix_socket(socket, TOKEN)


def test_another_machine_is_reached_through_ssh_with_the_bundled_file(tmp_path, monkeypatch):
    """A stand-in for ssh does what ssh does: hands the last word to a shell over there."""
    write_bundle(tmp_path / "foretrace-agent.pyz")
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\necho "$@" > "$0.said"\nfor line; do :; done\nexec sh -c "$line"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    agent = str(tmp_path / "foretrace-agent.pyz")
    far = Address("far", ssh="me@box", python=sys.executable, agent=agent)
    remote = RemoteDriver(far.open(), "host")
    remote.open({})
    assert remote.timing([Request("host:chase uint8[4096]")])[0].ns.min() > 0
    remote.close()
    assert (tmp_path / "ssh.said").read_text().startswith("-T -o BatchMode=yes -- me@box ")
