"""The protocol, damaged both ways: a little of what ``tests/fuzz`` does for ten minutes a night."""

import importlib.util
import random
import sys
from pathlib import Path

import pytest
from foretrace.hil.agent import protocol, server
from foretrace.sim.errors import DriverFault, ForetraceError

FUZZ = Path(__file__).parents[2] / "fuzz"


def module(name):
    """A module of the folder of tests/fuzz, which is a program and no package."""
    spec = importlib.util.spec_from_file_location(f"fuzz_{name}", FUZZ / f"{name}.py")
    sys.modules[spec.name] = made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


mutate, damage = module("mutate"), module("protocol_targets")


def refusal(read, value, folder):
    """What an input was refused with; "" where it was taken."""
    try:
        read(value, folder)
    except ForetraceError as error:
        return str(error) or 1 / 0  # a refusal says why
    return ""


@pytest.mark.parametrize("name", damage.TARGETS)
def test_intact_messages_are_accepted_and_damaged_ones_accepted_or_refused_by_name(name, tmp_path):
    """The same 200 changes every time; anything but a refusal in words is raised here."""
    (tree, text), read = damage.TARGETS[name]
    read(tree, tmp_path)
    read(text, tmp_path)
    draw, refused = random.Random(name), 0
    for _ in range(100):
        for value in (mutate.changed(tree, draw), mutate.damaged(text, [text], draw)):
            refused += bool(refusal(read, value, tmp_path))
    assert (refused > 50) == (name == "answers")  # an agent refuses in its replies


FOUND = {  # by damage: what an agent must not answer
    "a probe without a state": (1, "state"),
    "an opened driver without traits": (4, "what"),
    "a description that is none": (5, "describe"),
    "a batch without samples": (6, "samples"),
    "an agent without a Python": (0, "python"),
}


@pytest.mark.parametrize("what", FOUND)
def test_an_answer_that_lacks_a_field_is_refused_by_the_name_of_the_field(what, tmp_path):
    number, field = FOUND[what]
    tree = [dict(message) for message in damage.TOLD]
    del tree[number][field]
    with pytest.raises(DriverFault, match=rf"^protocol: (peer b: )?a reply without '{field}'"):
        damage.answers(tree, tmp_path)


@pytest.mark.parametrize(("field", "value"), [
    ("signature", 5), ("n", 2.5), ("n", True), ("preceding", [5]), ("context", None),
])  # fmt: skip
def test_a_request_with_a_field_of_another_type_is_refused_and_not_asked_of_a_driver(field, value):
    with pytest.raises(TypeError):
        protocol.decode_requests([{**damage.REQUEST, field: value}])


@pytest.mark.parametrize(("field", "value"), [
    ("facts", None), ("flags", [5]), ("clock", 5), ("start", "x"), ("metric", None),
])  # fmt: skip
def test_a_sample_with_a_field_of_another_type_is_refused(field, value):
    with pytest.raises(DriverFault, match=r"^protocol: samples are malformed"):
        protocol.decode_samples([{**damage.SAMPLE, field: value}], [[5.0, 5.0]])


class Odd:
    """An agent's side with replies that cannot be sent."""

    def __init__(self, reply):
        self.told = reply

    def reply(self, message):
        return self.told, []


@pytest.mark.parametrize(("reply", "why"), [
    ({"text": "x" * (protocol.MESSAGE + 1)}, "oversized"), ({"facts": {1, 2}}, "cannot be encoded"),
])  # fmt: skip
def test_an_answer_that_cannot_be_sent_is_named_and_the_agent_goes_on(reply, why):
    frame = protocol.pack_frame({"verb": "describe"})
    text = frame[protocol.HEAD.size :]
    sent = server.reply_bytes(Odd(reply), text, b"")
    assert why in sent.decode(errors="replace")
