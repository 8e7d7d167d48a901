"""Mailboxes: messages between processes, sent as actions and delivered at the end of a turn.

``docs/semantics.md``, sections 4 and 5, defines when a message arrives.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable
from operator import index
from typing import Any, NamedTuple, cast

import simpy

from ..errors import SimulationError
from .abandonment import AbandonableCallbacks

Note = Callable[[Callable[[], None]], None]  # notes an action for the next turn
LEAST, MOST = -(2**63), 2**63 - 1


class Message(NamedTuple):
    """Message of a process: three integers, and the mailbox for an answer; "" for none."""

    a: int
    b: int
    c: int
    answer_to: str = ""


Letter = tuple[int, Message]  # number in the run, which orders them


class Receipt(simpy.Event):
    """Event that fires with the next message of a mailbox.

    If no process waits for it any more, its message stays in the mailbox.
    """

    def __init__(self, env: simpy.Environment, on_abandoned: Callable[[Receipt], None]):
        super().__init__(env)
        self.letter: Letter | None = None
        self.was_left = False
        self.listeners = AbandonableCallbacks(lambda: on_abandoned(self))
        self.callbacks = cast(Any, self.listeners)

    @property
    def is_abandoned(self) -> bool:
        """True if a process waited for it and none does."""
        return self.was_left and not self.listeners


class Mailbox:
    """Mailbox of a run, from which processes receive messages in the order of sending.

    Parameters
    ----------
    name : name, for error messages
    room : mailboxes of the run
    """

    def __init__(self, name: str, room: MailRoom):
        self.name, self._room = name, room
        self.kept: list[Letter] = []
        self.waiting: deque[Receipt] = deque()

    def send(self, a: int, b: int = 0, c: int = 0, answer_to: str = "") -> None:
        """Send a message; it arrives at the end of the next turn.

        Parameters
        ----------
        a, b, c : 64-bit integers
        answer_to : name of the mailbox for an answer
        """
        a, b, c = (_checked(self.name, value) for value in (a, b, c))
        self._room.send(self, Message(a, b, c, answer_to))

    def receive(self) -> Receipt:
        """Event that fires with the next :class:`Message`; at once if one was kept."""
        event = Receipt(self._room.env, self._note_left)
        if self.kept and not self.waiting:
            event.letter = self.kept.pop(0)
            event.succeed(event.letter[1])
        else:
            self.waiting.append(event)
        return event

    def _note_left(self, event: Receipt) -> None:
        """Record that no process waits for an event; a message that it has returns to the box."""
        event.was_left = True
        if event.letter is not None:
            self._room.note(lambda: self._take_back(event))

    def _take_back(self, event: Receipt) -> None:
        if event.letter is not None and event.is_abandoned:
            letter, event.letter = event.letter, None
            self._room.post(self, letter)

    def deliver(self) -> list[tuple[int, Receipt]]:
        """Events to fire, each with the number of its message; they have their messages."""
        found = []
        while self.waiting and self.kept:
            event = self.waiting.popleft()
            if not event.is_abandoned:
                event.letter = self.kept.pop(0)
                found.append((event.letter[0], event))
        return found


class MailRoom:
    """Mailboxes of a run, and the messages of the turn in progress.

    Parameters
    ----------
    env : SimPy environment of the run
    note : function that notes an action for the next turn
    """

    def __init__(self, env: simpy.Environment, note: Note):
        self.env, self.note = env, note
        self.posted: dict[Mailbox, None] = {}
        self._boxes: dict[tuple[int, str], Mailbox] = {}
        self.sent = 0  # letters so far

    def box(self, job: int, name: str) -> Mailbox:
        """Mailbox of a job by name; it is created on first use."""
        key = job, name
        if key not in self._boxes:
            self._boxes[key] = Mailbox(name, self)
        return self._boxes[key]

    def send(self, box: Mailbox, message: Message) -> None:
        """Send a message; it is posted at the start of the next turn."""
        letter = self.sent, message
        self.sent += 1
        self.note(lambda: self.post(box, letter))

    def post(self, box: Mailbox, letter: Letter) -> None:
        """Put a letter into a mailbox, at its place in the order of sending."""
        insort(box.kept, letter)
        self.posted[box] = None

    def deliveries(self) -> list[tuple[simpy.Event, object]]:
        """Events that messages of this turn fire, with the messages, in the order of sending."""
        boxes, self.posted = self.posted, {}
        found = sorted((pair for box in boxes for pair in box.deliver()), key=lambda pair: pair[0])
        return [(event, cast(Letter, event.letter)[1]) for _, event in found]


def _checked(box: str, value: int) -> int:
    """Number of a message as a 64-bit integer.

    Raises
    ------
    SimulationError
        It is no integer, or too large.
    """
    try:
        number = index(value)
    except TypeError:
        number = None
    if number is None or not LEAST <= number <= MOST:
        raise SimulationError(
            "action", f"mailbox {box}: a message contains {value!r}; send 64-bit integers"
        )
    return number
