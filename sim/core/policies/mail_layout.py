"""Layout of the mail of the desk: mailboxes whose receivers are all driven by the compiled loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..memory.state_layout import NONE, Array

# Numbers of the mail (`DeskMail.now`): letters of the run so far; first free row of letters; next
# letter of `DeskMail.delivered` for which no kernel was called, and their number.
SENT, FREE, NEXT_DELIVERED, DELIVERED, MAIL_NUMBERS = range(5)

# Row of a letter: number in the run, which orders it; mailbox; integers; sender, which names the
# mailbox for an answer; receiver, once it has one; next letter of the mailbox, or next free row.
LETTER_NUMBER, LETTER_BOX, LETTER_A, LETTER_B, LETTER_C = range(5)
SENDER, RECEIVER, NEXT_LETTER, LETTER = range(5, 9)

# Row of a mailbox: first and last letter that it keeps, first and last policy that waits.
FIRST_KEPT, LAST_KEPT, FIRST_WAITING, LAST_WAITING, BOX = range(5)

# Row of a policy: mailbox that it reads, and the number of its name; next policy that waits for
# this mailbox; first row of the mailboxes to which it sends, and their number.
INBOX, INBOX_NAME, NEXT_WAITING, SENDS_TO, SEND_COUNT, MAIL_USER = range(6)

# Row of a mailbox to which a policy sends: mailbox, NONE if Python must send; number of its name.
TO_BOX, TO_NAME, SEND_TO = range(3)


class DeskMail(NamedTuple):
    """Arrays of the mail.

    Parameters
    ----------
    now : numbers of the mail
    letters : letters that were sent and not yet received
    boxes : mailboxes
    users : one row per policy
    to : mailboxes to which policies send
    delivered : letters that wake policies in this turn
    """

    now: Array
    letters: Array
    boxes: Array
    users: Array
    to: Array
    delivered: Array


def free_letters(count: int) -> Array:
    """Free rows of letters, linked in order."""
    found = np.zeros((count, LETTER), np.int64)
    found[:, NEXT_LETTER] = np.arange(1, count + 1)
    found[-1, NEXT_LETTER] = NONE
    return found
