"""Three network namespaces as three hosts, each with its own agent; one has a different clock.

Agents are reached by sockets, and by a real ssh whose server is in the host's namespaces.

The port of each into their bridge has a rate, so that some times have a lower bound whatever this
machine does besides; no time has an upper one.
"""

import os
import shlex
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import foretrace
import pytest
from foretrace.hil.agent.address import Address
from foretrace.hil.agent.bundle import write_bundle
from foretrace.hil.agent.client import RemoteDriver
from foretrace.hil.drivers.linux import netns
from foretrace.hil.recording import read
from foretrace.hil.sample import Request
from foretrace.sim.errors import DriverFault
from ssh_server import OURS, unpacked

TOKEN = "three hosts have one word here"
DAY = 86_400  # s that the clock of the third host is ahead
RATE = 1e9 / 8  # B/s of each port
PEERS = [{"agent": f"host{k}", "device": f"10.9.0.{k}"} for k in (2, 3)]
COARSE = "expect: [{that: hil.fabric.time.error.max <= 1000 %}]\n"  # so that one start is enough
SCENARIO = Path(foretrace.__file__).parent / "docs/lab/hosts.yaml"


def listens(process, path):
    """Whether somebody in the namespace of a process listens there."""
    rows = Path(f"/proc/{process.pid}/net/unix").read_text().splitlines()
    return any(words[3] == "00010000" and words[-1] == str(path) for words in map(str.split, rows))


def in_host(star, number):
    """Words before a command, that run it in a host; the third one's clock is another."""
    words = ["ip", "netns", "exec", star.host(number)]
    if number == 3:
        words += ["unshare", "--time", "--monotonic", str(DAY), "--fork", "--kill-child"]
    return words


def write_program(path, text):
    """A script that can be run."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture(scope="module")
def star():
    """Three hosts behind a bridge whose ports have a rate."""
    if os.geteuid() != 0:
        pytest.skip("NOT ROOT: three network namespaces as three hosts were not tried")
    made = netns.StarNetwork(3, f"fttest{os.getpid()}")
    try:
        made.build()
        netns.set_queueing(made.switch, made.ports, ["tbf", "rate", "1gbit", "burst", "9k",
                                                     "limit", "9000000"])  # fmt: skip
        done = subprocess.run([*in_host(made, 3), "true"], capture_output=True, text=True)
        if done.returncode:
            raise DriverFault("unsupported", f"no time namespaces: {done.stderr.strip()}")
    except DriverFault as fault:
        made.clear()
        pytest.skip(f"NO NAMESPACES HERE: three hosts were not tried ({fault})")
    yield made
    made.clear()


@pytest.fixture
def hosts(star, tmp_path, monkeypatch):
    """An agent in each host, which listens on a socket, and the list that names them."""
    token, agents, running = tmp_path / "token", "agents:\n", []
    token.write_text(TOKEN)
    token.chmod(stat.S_IRUSR | stat.S_IWUSR)
    for k in (1, 2, 3):
        path = tmp_path / f"host{k}"
        command = [sys.executable, "-P", "-m", "foretrace.hil.agent", "--listen", path]
        process = subprocess.Popen([*in_host(star, k), *command, "--token-file", token])
        running.append(process)
        while not listens(process, path):
            assert process.poll() is None
            time.sleep(0.02)
        agents += f"  host{k}: {{socket: {path}, token_file: {token}}}\n"
    folder = tmp_path / "foretrace"
    folder.mkdir(exist_ok=True)
    (folder / "agents.yaml").write_text(agents)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    yield tmp_path
    for process in running:
        process.kill()  # unshare leaves a request to end to its child, which has none
        process.wait()


def remote(folder, number):
    address = Address("s", socket=str(folder / f"host{number}"), token_file=str(folder / "token"))
    return RemoteDriver(address.open(), "tcp", 120.0, lambda peer: remote(folder, int(peer[-1])))


@pytest.fixture
def near(hosts):
    """The driver in the first host, opened as asked; closed with those at the other ends."""
    made = []

    def start(**spec):
        driver = remote(hosts, 1)
        made.append(driver)
        driver.open({"device": "10.9.0.1", **spec})
        return driver

    yield start
    for driver in made:
        if not driver.channel.closed:
            driver.close()


@pytest.fixture
def behind_ssh(star, tmp_path, monkeypatch):
    """An agent of each host's own, behind an ssh server in its namespaces, and their list.

    The server is started by the client of each connection, and speaks through a pipe.
    """
    if shutil.which("ssh") is None:
        pytest.skip("NO SSH HERE; apt install openssh-client")
    program, libraries = unpacked(tmp_path)
    for name in ("host", "mine"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name],
                       check=True)  # fmt: skip
    (tmp_path / "sshd").write_text(
        f"HostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/mine.pub\nPidFile none\n"
        "StrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\n"
    )
    (tmp_path / "known").write_text(f"three {(tmp_path / 'host.pub').read_text()}")
    config = (f"Host *\n User root\n IdentityFile {tmp_path}/mine\n IdentitiesOnly yes\n"
              f" UserKnownHostsFile {tmp_path}/known\n HostKeyAlias three\n")  # fmt: skip
    agent, agents = tmp_path / "foretrace-agent.pyz", "agents:\n"
    write_bundle(agent)
    for k in (1, 2, 3):
        (tmp_path / f"etc{k}").mkdir()
        words = [*in_host(star, k), "unshare", "--mount", "sh", "-c", OURS, "sh", program]
        words += ["-i", "-e", "-f", str(tmp_path / "sshd")]
        run_in = f"cd {tmp_path}/etc{k} && LD_LIBRARY_PATH={libraries} exec {shlex.join(words)}"
        (tmp_path / f"start{k}").write_text(run_in)
        config += f"Host host{k}\n ProxyCommand sh {tmp_path}/start{k}\n"
        agents += f"  host{k}: {{ssh: host{k}, python: {sys.executable}, agent: {agent}}}\n"
    (tmp_path / "config").write_text(config)
    write_program(tmp_path / "ssh", f'exec {shutil.which("ssh")} -F {tmp_path}/config "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "foretrace").mkdir(exist_ok=True)
    (tmp_path / "foretrace/agents.yaml").write_text(agents)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("way", [
    "hosts", pytest.param("behind_ssh", marks=pytest.mark.hardware("ssh")),
])  # fmt: skip
def test_a_scenario_measures_latency_rate_and_incast_between_three_hosts(cli, request, way):
    """The file of the docs, by its command line; the recording tells hosts, inside and clocks."""
    hosts = request.getfixturevalue(way)
    words = ("hil.keep_recording=kept", "hil.busy=1000", "hil.time_limit=600 s", "hil.repeat=1")
    (hosts / "s.yaml").write_text(SCENARIO.read_text() + COARSE)
    code, _, error = cli("hil", "check", "s.yaml", *(f"--set={word}" for word in words))
    assert code == 0, error
    kept = read(hosts / "kept/fabric.rec.gz")
    fastest = {}
    for sample in kept.samples:
        fastest[sample.signature] = min(fastest.get(sample.signature, 1e18), sample.ns.min())
    mebibyte = 2**20 / RATE * 1e9
    assert fastest["send:stream uint8[1048576]"] > 0.9 * mebibyte  # of a rate there is a burst
    assert fastest["send:stream flows=2 uint8[1048576]"] > 1.8 * mebibyte  # they share one port
    assert fastest["send:stream uint8[64]"] > 0
    assert (kept.driver, kept.device) == ("tcp", "tcp-10.9.0.2-10.9.0.3")
    assert kept.versions["inside"].startswith("two hosts: both TCPs, both NICs")
    host2, host3 = kept.versions["clock_offsets"].split("; ")
    assert host2.endswith("the same clock within that uncertainty")
    assert host3.startswith("host3 ")
    assert abs(float(host3.split()[1]) - DAY) < 1e-3  # s; a pause of either host makes it wider
    assert host3.endswith("a different clock")


def test_another_hosts_clock_offset_is_measured_and_subtracted_from_one_way_times(near):
    """Both hosts are on this machine, so the clock of one of them is surely known: ours, or a day
    ahead of it; what was measured holds the truth, and never mixes the two."""
    for peer, truth in zip(PEERS, (0.0, DAY * 1e9), strict=True):
        driver = near(peer=peer, metric="one_way", clock_offset="measured")
        (sample,) = driver.timing([Request("send:stream uint8[1048576]", 3)])
        offset, error = (sample.facts[f"clock_offset{k}_ns"] for k in ("", "_error"))
        assert abs(offset - truth) <= error + 1000  # 1 us: the namespace itself counts in ns
        assert sample.ns.min() > 0.9 * 2**20 / RATE * 1e9 - error
        assert sample.ns.max() < 1e12  # no day is in it
        driver.close()


def test_one_way_without_a_stated_offset_is_refused_by_name(near):
    with pytest.raises(DriverFault, match=r"^unsupported: one_way is read on two clocks; set "):
        near(peer=PEERS[1], metric="one_way")


def test_a_host_that_cannot_be_reached_is_named_and_not_waited_for(near):
    with pytest.raises(DriverFault, match=r"^broken: peer host2: 10\.9\.0\.77: .*name an address"):
        near(peer={"agent": "host2", "device": "10.9.0.77"})


def test_several_hosts_are_asked_at_once_and_share_one_port(near):
    driver = near(peer=PEERS)
    together = driver.together([Request("send:stream uint8[1048576]", 3)] * 2)
    last = min(max(a, b) for a, b in zip(*(s.ns for s in together), strict=True))
    assert last > 1.8 * 2**20 / RATE * 1e9


def test_the_bundle_of_the_agent_has_what_two_hosts_need(star, tmp_path, monkeypatch):
    """A host that has nothing of ours but one file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    write_bundle(tmp_path / "agent.pyz")
    program = tmp_path / "python"
    words = " ".join(in_host(star, 2))
    write_program(program, f'shift\nexec {words} {sys.executable} -I {tmp_path}/agent.pyz "$@"')
    far = RemoteDriver(Address("b", python=str(program)).open(), "tcp")
    far.open({"device": "10.9.0.2", "end": "far"})
    assert far.relay_to_driver("ask", {"do": "listen"}, 60.0, time.monotonic() + 60)["port"] > 0
    far.close()
