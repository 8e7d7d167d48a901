"""Mailboxes of policies, moved to the desk and back to the run's mailboxes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import cast

import numpy as np

from ...engine_api.driven_policy import DrivenPolicy
from ...engine_api.mailbox import Letter, Mailbox, MailRoom, Message, Receipt
from ..memory.state_layout import NONE, Array
from . import mail_layout as ml
from .desk_tables import table
from .mail_layout import DeskMail

LETTERS_AT_ONCE = 1 << 8


class DrivenMail:
    """Mailboxes of one run of the compiled loop.

    A mailbox is driven if all processes that wait for its next message are driven policies. What
    is sent to any other one goes through Python. While the loop runs, receipts of policies stay in
    their mailboxes; afterwards they get the letters and the order of the desk.

    Parameters
    ----------
    room : mailboxes of the run
    driven : policies whose kernels are called
    """

    def __init__(self, room: MailRoom, driven: Sequence[DrivenPolicy]):
        self.room, self.driven = room, driven
        owners = {one.receipt: k for k, one in enumerate(driven) if one.receipt is not None}
        self.boxes: list[Mailbox] = []
        self._waiting: list[list[int]] = []
        for box in dict.fromkeys(one.inbox for one in driven if one.inbox is not None):
            waiting = [owners.get(receipt, NONE) for receipt in box.waiting]
            if waiting and NONE not in waiting and not box.kept:
                self.boxes.append(box)
                self._waiting.append(waiting)

    def arrays(self) -> DeskMail:
        """Arrays of the mail as the loop begins."""
        row_of, names = {box: k for k, box in enumerate(self.boxes)}, dict[str, int]()
        users, to = list[list[int]](), list[list[int]]()
        for one in self.driven:
            inbox = NONE if one.inbox is None else row_of.get(one.inbox, NONE)
            name = names.setdefault("" if one.inbox is None else one.inbox.name, len(names))
            users.append([inbox, name, NONE, len(to), len(one.boxes)])
            for box in one.boxes:
                number = names.setdefault(box.name, len(names))
                to.append([row_of.get(box, NONE), number])
        boxes = [[NONE, NONE, waiting[0], waiting[-1]] for waiting in self._waiting]
        for waiting in self._waiting:
            for p, following in pairwise(waiting):
                users[p][ml.NEXT_WAITING] = following
        letters = LETTERS_AT_ONCE if self.boxes else 1
        return DeskMail(
            np.array([self.room.sent, 0, 0, 0], np.int64), ml.free_letters(letters),
            table(boxes, ml.BOX), table(users, ml.MAIL_USER), table(to, ml.SEND_TO),
            np.zeros(letters, np.int64),
        )  # fmt: skip

    def message(self, row: Sequence[int]) -> Letter:
        """Letter in a row of the desk, as the run's mailboxes keep it."""
        inbox = self.driven[row[ml.SENDER]].inbox
        a, b, c = row[ml.LETTER_A : ml.LETTER_C + 1]
        return row[ml.LETTER_NUMBER], Message(a, b, c, "" if inbox is None else inbox.name)

    def give_back(self, mail: DeskMail) -> None:
        """Give the run's mailboxes what they keep, and the receipts that still wait, in order."""
        self.room.sent = mail.now.item(ml.SENT)
        for box, row in zip(self.boxes, mail.boxes.tolist(), strict=True):
            waiting, p = deque[Receipt](), row[ml.FIRST_WAITING]
            while p != NONE:
                waiting.append(cast(Receipt, self.driven[p].receipt))
                p = mail.users.item(p, ml.NEXT_WAITING)
            box.waiting, k = waiting, row[ml.FIRST_KEPT]
            while k != NONE:
                letter = mail.letters[k].tolist()
                box.kept.append(self.message(letter))
                k = letter[ml.NEXT_LETTER]

    def delivered(self, mail: DeskMail) -> list[list[int]]:
        """Letters of this turn for which no kernel was called yet."""
        which = mail.delivered[mail.now[ml.NEXT_DELIVERED] : mail.now[ml.DELIVERED]]
        found: list[list[int]] = mail.letters[which].tolist()
        return found

    def post(self, row: Sequence[int]) -> Callable[[], None]:
        """Action that posts a letter which was sent and not yet posted."""
        box, letter = self.boxes[row[ml.LETTER_BOX]], self.message(row)
        return lambda: self.room.post(box, letter)

    def undo_deliveries(self, mail: DeskMail) -> None:
        """Let the run's mailboxes deliver the letters of this turn."""
        for row in reversed(self.delivered(mail)):
            box = self.boxes[row[ml.LETTER_BOX]]
            box.waiting.appendleft(self.receipt(row))
            self.room.post(box, self.message(row))

    def receipt(self, row: Sequence[int]) -> Receipt:
        """Receipt of the policy that receives a letter."""
        return cast(Receipt, self.driven[row[ml.RECEIVER]].receipt)

    def fill(self, row: Sequence[int]) -> tuple[Receipt, Message]:
        """The receipt that gets a letter, and its message."""
        receipt = self.receipt(row)
        receipt.letter = self.message(row)
        return receipt, receipt.letter[1]


def with_more_letters(mail: DeskMail) -> DeskMail:
    """Mail with room for further letters, if there is little left."""
    free, k = 0, mail.now.item(ml.FREE)
    while k != NONE:
        free, k = free + 1, mail.letters.item(k, ml.NEXT_LETTER)
    count = len(mail.letters)
    if not len(mail.boxes) or free > count // 2:
        return mail
    more = ml.free_letters(count)
    more[:, ml.NEXT_LETTER] += count
    more[-1, ml.NEXT_LETTER] = mail.now[ml.FREE]
    mail.now[ml.FREE] = count
    delivered: Array = np.zeros(2 * count, np.int64)
    delivered[:count] = mail.delivered
    return mail._replace(letters=np.concatenate([mail.letters, more]), delivered=delivered)
