"""Mailboxes inside the compiled loop: letters that are sent, kept and delivered.

``sim/engine_api/mailbox.py`` defines what they mean. Letters of the loop are posted in the order of
sending, and a mailbox keeps letters only while nobody waits for it. So each posted letter either
belongs to the first policy that waits, or becomes the last one that is kept.
"""

from __future__ import annotations

import numpy as np

from ...kernel import policy_rows as rows
from ...kernel.jit import Int, jit_without_refcounts
from ..memory.state_layout import NONE
from .desk_layout import (
    FULL,
    ROW,
    SLOW,
    Array,
    Desk,
)
from .mail_layout import (
    DELIVERED,
    FIRST_KEPT,
    FIRST_WAITING,
    FREE,
    INBOX,
    INBOX_NAME,
    LAST_KEPT,
    LAST_WAITING,
    LETTER_A,
    LETTER_B,
    LETTER_BOX,
    LETTER_C,
    LETTER_NUMBER,
    NEXT_DELIVERED,
    NEXT_LETTER,
    NEXT_WAITING,
    RECEIVER,
    SEND_COUNT,
    SENDER,
    SENDS_TO,
    SENT,
    TO_BOX,
    TO_NAME,
    DeskMail,
)
from .noted_actions import note


@jit_without_refcounts
def note_letter(desk: Desk, p: Int, actions: Array) -> Int:
    """Note a message of a policy; 0, or why Python must go on with it."""
    mail, row = desk.mail, desk.now[ROW]
    of, to = mail.users[p], actions[row, rows.TAG]
    if not 0 <= to < of[SEND_COUNT]:
        return SLOW
    box = mail.to[of[SENDS_TO] + to, TO_BOX]
    if box == NONE:
        return SLOW
    k = mail.now[FREE]
    if k == NONE:
        return FULL
    letter = mail.letters[k]
    mail.now[FREE] = letter[NEXT_LETTER]
    letter[LETTER_NUMBER], letter[LETTER_BOX], letter[SENDER] = mail.now[SENT], box, p
    letter[LETTER_A], letter[LETTER_B] = actions[row, rows.A], actions[row, rows.B]
    letter[LETTER_C], letter[RECEIVER] = actions[row, rows.C], NONE
    mail.now[SENT] += 1
    note(desk, p, np.int64(rows.SEND), k, 0, 0)
    return 0


@jit_without_refcounts
def post_letter(mail: DeskMail, k: Int) -> None:
    """Put a letter into its mailbox, or deliver it to the first policy that waits there."""
    letter = mail.letters[k]
    box = mail.boxes[letter[LETTER_BOX]]
    letter[NEXT_LETTER], p = NONE, box[FIRST_WAITING]
    if p != NONE:
        box[FIRST_WAITING] = mail.users[p, NEXT_WAITING]
        letter[RECEIVER] = p
        mail.delivered[mail.now[DELIVERED]] = k
        mail.now[DELIVERED] += 1
        return
    if box[FIRST_KEPT] == NONE:
        box[FIRST_KEPT] = k
    else:
        mail.letters[box[LAST_KEPT], NEXT_LETTER] = k
    box[LAST_KEPT] = k


@jit_without_refcounts
def next_delivered(mail: DeskMail) -> Int:
    """The next letter that wakes a policy in this turn."""
    k = mail.delivered[mail.now[NEXT_DELIVERED]]
    mail.now[NEXT_DELIVERED] += 1
    if mail.now[NEXT_DELIVERED] == mail.now[DELIVERED]:
        mail.now[NEXT_DELIVERED] = mail.now[DELIVERED] = 0
    return k


@jit_without_refcounts
def receive(mail: DeskMail, p: Int) -> Int:
    """Letter that a policy takes from its mailbox; NONE if it waits from now on."""
    box = mail.boxes[mail.users[p, INBOX]]
    k = box[FIRST_KEPT]
    if k != NONE and box[FIRST_WAITING] == NONE:
        box[FIRST_KEPT] = mail.letters[k, NEXT_LETTER]
        mail.letters[k, RECEIVER] = p
        return k
    mail.users[p, NEXT_WAITING] = NONE
    if box[FIRST_WAITING] == NONE:
        box[FIRST_WAITING] = p
    else:
        mail.users[box[LAST_WAITING], NEXT_WAITING] = p
    box[LAST_WAITING] = p
    return NONE


@jit_without_refcounts
def free_letter(mail: DeskMail, k: Int) -> None:
    """Free the row of a letter whose receiver was called."""
    mail.letters[k, NEXT_LETTER] = mail.now[FREE]
    mail.now[FREE] = k


@jit_without_refcounts
def answer_box(mail: DeskMail, p: Int, sender: Int) -> Int:
    """Number of the mailbox for an answer among those to which a policy sends; -1 for none."""
    of, name = mail.users[p], mail.users[sender, INBOX_NAME]
    for i in range(of[SEND_COUNT]):
        if mail.to[of[SENDS_TO] + i, TO_NAME] == name:
            return i
    return -1
