"""Stores of a compiled process: what its kernel calls goes to the handles of a process.

This is the meaning of the verbs in ``sim/kernel/policy_store.py``, on both engines. The compiled
loop calls the same store without Python (``sim/core/policies/store_function.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...kernel import policy_rows as rows
from ...kernel import store_verbs as calls
from ...kernel.policy_rows import TurnArrays
from ..process import Running


class PolicyStores:
    """Stores among the parts of a compiled process.

    Parameters
    ----------
    sim : interface of the process to the run
    parts : names of its parts
    stores : those of them that are stores; the run has a history of each
    turn : arrays of its kernel
    """

    def __init__(
        self, sim: Running, parts: Sequence[str], stores: Collection[str], turn: TurnArrays
    ):
        self._sim, self._parts, self._head = sim, parts, turn.head
        self._handles = {name: sim.store(name) for name in stores}
        self._function = calls.function_of(self._answer)
        self._address = calls.address_of(self._function)
        self._stopped_by: BaseException | None = None

    def begin_call(self) -> None:
        """Let the kernel, which is called next, call the stores through Python."""
        head = self._head
        head[rows.STORE_FUNCTION], head[rows.STORE_STATE] = self._address, 0

    def end_call(self) -> None:
        """Raise what interrupted Python during the call."""
        stopped, self._stopped_by = self._stopped_by, None
        if stopped is not None:
            raise stopped

    def raise_again(self, verb: int, part: int, key: int, number: int) -> None:
        """Raise the error of a wrong verb, which has changed nothing."""
        self._act(part, verb, key, number)
        raise AssertionError(f"{self._parts[part]}: a verb {verb} was wrong, and then was not")

    def _answer(self, table: int, part: int, verb: int, key: int, number: int) -> int:
        """Answer to the kernel: no error can pass through it."""
        try:
            return self._act(part, verb, key, number)
        except Exception:  # raised again at its row
            return calls.WRONG
        except BaseException as stopped:
            self._stopped_by = stopped
            return calls.WRONG

    def _act(self, part: int, verb: int, key: int, number: int) -> int:
        """Do what a verb means."""
        name = self._parts[part]
        store = self._handles.get(name) or self._sim.store(name)  # which raises the error
        if verb == calls.HOLD:
            return int(store.hold(key, number))
        if verb == calls.DROP:
            return int(store.drop(key))
        if verb == calls.OWNERS:
            return store.owners(key) if key in store else -1
        if verb == calls.SIZE:
            return store.size(key) if key in store else 0
        if verb in (calls.USED, calls.HOLDING):
            return store.used if verb == calls.USED else store.held
        if verb == calls.RELEASE:
            store.release(key)
        elif verb == calls.TOUCH:
            store.touch(key)
        else:
            store.set_order(key, number)
        return 0
