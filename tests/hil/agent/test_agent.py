"""Agents: what works, and every way in which a driver or its agent can fail."""

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
from foretrace.hil.agent import protocol
from foretrace.hil.agent.address import Address
from foretrace.hil.agent.client import RemoteDriver
from foretrace.hil.agent.transport import Channel, start_agent_process
from foretrace.hil.driver import Missing, Ready
from foretrace.hil.sample import Request
from foretrace.sim.errors import DriverFault, HardwareUnavailable, RecordingError

ODD = str(Path(__file__).parents[2] / "helpers/devices/odd_driver.py")
IDLE = Request("host:idle", 3)


@pytest.fixture
def odd():
    """Opens the odd driver in an agent; ends every agent that a test leaves."""
    made = []

    def start(environment=(), **spec):
        remote = RemoteDriver(Address(load=(ODD,), environment=dict(environment)).open(), "odd")
        made.append(remote)
        if spec.pop("open", True):
            remote.open(spec)
        return remote

    yield start
    for remote in made:
        if not remote.channel.closed:
            remote.close()


def test_an_op_is_timed_in_another_process(odd):
    (sample,) = odd().timing([IDLE])
    assert sample.ns.round(1).tolist() == [100.0, 100.1, 100.2]
    assert (sample.clock, sample.metric, sample.context) == ("wall", "completion", "warm")


def test_probe_describe_and_traits_reach_the_client(odd):
    remote = odd()
    assert remote.probe() == Ready(("odd0",))
    assert remote.describe()["device"] == "odd0"
    assert remote.describe()["python"].startswith("3.")
    assert (remote.clock, remote.ops) == ("wall", ("host:idle", "host:other", "copy:h2h"))


@pytest.mark.parametrize("kind", ["missing", "denied", "unsupported", "broken"])
def test_a_device_that_cannot_be_used_says_why_and_what_to_do(odd, kind):
    state = odd(environment={"ODD_PROBE": kind}, open=False).probe()
    assert state == Missing(kind, "no such device", "plug one in")
    assert str(state.fault()) == f"{kind}: no such device; plug one in"


@pytest.mark.parametrize("kind", ["busy", "denied"])
def test_a_device_that_is_taken_or_forbidden_cannot_be_opened(odd, kind):
    with pytest.raises(DriverFault, match=rf"^{kind}: odd0: not for you; ask its owner$"):
        odd(fault=kind)


@pytest.mark.parametrize(
    ("fault", "kind", "text"),
    [
        ("nan", "not-a-number", "host:idle took nan ns"),
        ("infinite", "not-a-number", "host:idle took inf ns"),
        ("negative", "negative", "host:idle took -1 ns; a time cannot be negative"),
        ("absurd", "absurd", "longer than an hour"),
        ("stood", "absurd", "the clock did not move"),
        ("unrequested", "unrequested", "asked for .'host:idle', 'warm'., answered .'host:other'"),
        ("too-many", "unrequested", "2 samples for 1 requests"),
        ("too-long", "unrequested", "4 repeats of host:idle, asked for 3"),
        ("too-short", "unrequested", "2 repeats of host:idle, asked for 3"),
        ("clock", "clock", "a sample has clock 'device', but the driver declares 'wall'"),
        ("raise", "broken", "RuntimeError: the library is unhappy"),
    ],
)
def test_an_impossible_sample_is_refused(odd, fault, kind, text):
    remote = odd(fault=fault)
    with pytest.raises(DriverFault, match=rf"^{kind}: .*{text}"):
        remote.timing([IDLE])


def test_the_agent_still_works_after_a_refused_sample(odd):
    remote = odd(fault="nan", after=0)
    with pytest.raises(DriverFault):
        remote.timing([IDLE])
    assert remote.describe()["device"] == "odd0"


def test_repeats_that_are_missing_for_a_stated_reason_are_kept(odd):
    (sample,) = odd(fault="partial").timing([IDLE])
    assert len(sample.ns) == 2
    assert sample.facts["partial"] == "the device was taken away"


def test_an_agent_that_dies_is_named_with_its_code(odd):
    remote = odd(fault="died")
    with pytest.raises(DriverFault, match=r"^died: the agent ended \(code 7\)"):
        remote.timing([IDLE])
    with pytest.raises(DriverFault, match=r"^died: this agent is gone"):
        remote.timing([IDLE])


def test_an_agent_that_hangs_is_ended_at_the_time_limit(odd):
    remote = odd(fault="hung")
    remote.limit = 0.5
    with pytest.raises(DriverFault, match=r"^hung: no answer within 0\.5 s"):
        remote.timing([IDLE])
    assert remote.channel.child.poll() is not None


def test_a_driver_that_never_closes_does_not_block_the_client(odd):
    remote = odd(fault="hung-close")
    remote.limit = 0.5
    with pytest.raises(DriverFault, match="hung: no answer within"):
        remote.close()
    assert remote.channel.child.poll() is not None


def test_an_op_that_is_not_on_the_list_is_refused_by_the_agent(odd):
    remote = odd()
    with pytest.raises(DriverFault, match=r"^unsupported: odd cannot time 'host:__class__'"):
        remote.timing([Request("host:__class__")])
    with pytest.raises(DriverFault, match=r"^unsupported: odd cannot time 'host:exec'"):
        remote.timing([Request("host:idle", 1, "after", ("host:exec",))])


def test_an_unknown_setting_is_refused(odd):
    with pytest.raises(DriverFault, match="no setting 'falt'; it takes: fault, after"):
        odd(falt="nan")


def test_a_driver_that_nobody_knows_is_missing(odd):
    remote = RemoteDriver(Address().open(), "nosuch")
    with pytest.raises(DriverFault, match=r"^missing: no driver 'nosuch'; there are: collective, "):
        remote.probe()
    remote.close()


def test_an_agent_serves_only_what_it_is_allowed():
    command = [*Address().command(), "--allow", "host"]
    remote = RemoteDriver(start_agent_process(command), "recorded")
    assert remote.hello["drivers"] == ["host"]
    with pytest.raises(DriverFault, match=r"^denied: this agent serves host, not 'recorded'"):
        remote.probe()
    remote.close()


def test_an_agent_of_another_version_is_refused():
    told = f"""
import sys; sys.path.insert(0, {os.getcwd()!r})
from foretrace.hil.agent import protocol
sys.stdout.buffer.write(protocol.pack_frame({{"protocol": 99, "drivers": []}})); sys.stdout.flush()
sys.stdin.read()
"""
    with pytest.raises(DriverFault, match=r"^protocol: the agent speaks version 99, we speak 1"):
        RemoteDriver(start_agent_process([sys.executable, "-c", told], mortal=False), "host")


def test_a_process_that_is_no_agent_is_refused():
    with pytest.raises(DriverFault, match=r"^protocol: a frame begins with b'hell'"):
        RemoteDriver(
            start_agent_process(
                [sys.executable, "-c", "print('hello, world, I am no agent')"], mortal=False
            ),
            "x",
        )


def test_a_python_that_is_not_there_is_missing():
    with pytest.raises(DriverFault, match=r"^missing: /nowhere/python: No such file"):
        start_agent_process(["/nowhere/python"])


def test_a_python_without_numpy_says_so_in_its_last_words():
    with pytest.raises(
        DriverFault, match=r"(?s)^died: the agent ended \(code 1\).*No module named"
    ):
        RemoteDriver(
            start_agent_process([sys.executable, "-c", "import nosuchnumpy"], mortal=False), "host"
        )


def test_an_agent_ends_with_the_process_that_started_it(tmp_path):
    program = f"""
import os, sys
from foretrace.hil.agent.address import Address
from foretrace.hil.agent.client import RemoteDriver
from foretrace.hil.sample import Request
remote = RemoteDriver(Address(load=({ODD!r},)).open(), "odd")
remote.open({{"fault": "hung"}})
print(remote.channel.child.pid, flush=True)
remote.timing([Request("host:idle", 3)])
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "TMPDIR": str(tmp_path)})  # fmt: skip
    with parent:
        agent = os.pidfd_open(int(parent.stdout.readline()))
        assert select.select([agent], [], [], 0)[0] == []  # it runs
        parent.kill()
    assert select.select([agent], [], [], 600)[0] == [agent]  # it has ended
    os.close(agent)


def test_a_fault_of_a_driver_is_hardware_that_is_not_available():
    assert issubclass(DriverFault, HardwareUnavailable)
    assert not issubclass(RecordingError, HardwareUnavailable)


def test_ops_done_together_are_asked_together(odd):
    both = [Request("host:idle", 2), Request("host:other", 2)]
    assert [s.ns[0] for s in odd().together(both)] == [200.0, 200.0]


def test_a_message_without_a_known_verb_gets_an_error_back(odd):
    remote = odd()
    message, _ = remote.channel.ask({"verb": "eval", "code": "1"}, 10.0)
    assert message["fault"] == "protocol"
    message, _ = remote.channel.ask({"verb": "timing"}, 10.0)
    assert message == {"fault": "protocol", "text": "timing needs 'requests', a list; got 'None'"}
    message, _ = remote.channel.ask({"verb": "timing", "requests": [{"n": 1}]}, 10.0)
    assert message["text"] == "requests are malformed ('signature')"
    assert remote.timing([IDLE])


def ask_bytes(channel, text, data=b"", head=None):
    """Reply to a frame of these bytes, whatever they are."""
    frame = (head or protocol.HEAD.pack(protocol.MAGIC, len(text), len(data))) + text + data
    with open(os.dup(channel.sink), "wb") as sink:
        sink.write(frame)
    return channel.receive(20.0)[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "recursion"),
        (b'{"verb": "timing", "n": 1e999, "arrays": []}', "1e999 is not a finite number"),
        (b'{"verb": "timing", "n": NaN, "arrays": []}', "NaN is not a finite number"),
        (b'{"verb": "probe", "arrays": [1e999]}', "1e999 is not a finite number"),
        (b'{"verb": "probe", "arrays": [0.5]}', "cannot be interpreted as an integer"),
        (b'{"verb": "probe"}', "arrays"),
        (b"nonsense", "Expecting value"),
        (b"{\xff}", "decode"),
        (b"", "Expecting value"),
    ],
)
def test_a_malformed_message_is_named_and_dropped_and_the_next_one_answered(odd, text, why):
    remote = odd()
    reply = ask_bytes(remote.channel, text)
    assert (reply["fault"], why in reply["text"]) == ("protocol", True), reply
    assert remote.timing([IDLE])


def test_two_drivers_cannot_be_open_in_one_agent(odd):
    remote = odd()
    with pytest.raises(DriverFault, match=r"^busy: this agent has odd open"):
        remote.open({})


def test_frames_on_a_broken_channel_are_not_sent():
    source, sink = os.pipe()
    other, last = os.pipe()
    os.close(last)
    channel = Channel(other, sink)
    with pytest.raises(DriverFault, match=r"^died: the agent ended; start it again"):
        channel.ask({"verb": "probe"}, 1.0)
    channel.close()
    os.close(source)
    assert protocol.VERSION == 1
