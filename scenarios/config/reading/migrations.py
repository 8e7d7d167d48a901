"""Files of an older form: rewritten as the form of today when they are read.

A change of the form that would break files comes with a migration from the form before it; the
first form is 1, so there is none yet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from .renamed_settings import with_current_names
from .tree import TreeNode, find_node, tree_from_value

log = logging.getLogger(__name__)

FORM = 1
Migration = Callable[[TreeNode], TreeNode]
MIGRATIONS: dict[int, tuple[Migration, str]] = {}
"""Migration and a description of its changes, by the form that it starts from."""


def migration(form: int, changes: str) -> Callable[[Migration], Migration]:
    """Register how a file of one form becomes one of the next.

    Parameters
    ----------
    form : that it begins with
    changes : what it changes, for the warning

    Raises
    ------
    ValueError
        There is one already, or it leads beyond the form of today.
    """

    def register(move: Migration) -> Migration:
        if form in MIGRATIONS or form >= FORM:
            raise ValueError(
                f"form {form}: has a migration already, or is not older than form {FORM}; register "
                "one migration for each older form"
            )
        MIGRATIONS[form] = move, changes
        return move

    return register


def _is_old_form(form: object) -> bool:
    return isinstance(form, int | str) and form in MIGRATIONS


def migrated_to_current_form(tree: TreeNode) -> TreeNode:
    """A file in the form of today; one of an unknown form is left as it is, for the check.

    Places stay those of the file, so that messages lead there.
    """
    while (at := find_node(tree, ("foretrace",))) is not None and _is_old_form(at.value):
        move, changes = MIGRATIONS[int(str(at.value))]
        form = int(str(at.value)) + 1
        log.warning(
            "%s: scenario form %s is read as form %s: %s; update the file and write foretrace: %s",
            *(at.spot.file, at.value, form, changes, form),
        )
        tree = move(tree)
        value = tree_from_value(form, at.spot, at.layer)
        tree = _with_form(tree, value)
    return with_current_names(tree)


def _with_form(tree: TreeNode, form: TreeNode) -> TreeNode:
    from dataclasses import replace

    return replace(tree, value={**tree.mapping, "foretrace": form})
