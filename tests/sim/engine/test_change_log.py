"""The log of held amounts returns each change exactly, in few bytes."""

import numpy as np
import pytest
from foretrace.sim.engine_api.change_log import CHUNK, ChangeLog


def plain(changes):
    """The same in lists: a change at the tick and component of the last one is added to it."""
    found = []
    for tick, component, change in changes:
        if found and found[-1][:2] == [tick, component]:
            found[-1][2] += change
        else:
            found.append([tick, component, change])
    return found


def random_changes(count, step, components, most, seed=0):
    r = np.random.default_rng(seed)
    ticks = np.cumsum(r.integers(0, step, count))
    columns = ticks, r.integers(0, components, count), r.integers(-most, most + 1, count)
    return np.stack(columns, axis=1)


@pytest.mark.parametrize(
    ("step", "components", "most"),
    [(2, 2, 1), (3, 1, 200), (2**31, 300, 2**31), (2**45, 70_000, 2**62)],
)
@pytest.mark.parametrize("count", [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
def test_changes_are_kept_exactly(count, step, components, most):
    changes = random_changes(count, step, components, most)
    one_by_one, at_once = ChangeLog(), ChangeLog()
    for row in changes.tolist():
        one_by_one.add(*row)
    merged = np.array(plain(changes.tolist()), np.int64).reshape(-1, 3)
    cuts = np.sort(np.random.default_rng(1).integers(0, len(merged) + 1, 5))
    for part in np.split(merged, cuts):
        at_once.extend(part)
    assert np.array_equal(one_by_one.rows, merged)
    assert np.array_equal(at_once.rows, merged)
    assert np.array_equal(np.concatenate(list(at_once)), merged)


def test_a_change_between_two_extensions_is_one():
    log = ChangeLog()
    for _ in range(3):
        log.extend(np.array([[4, 1, 2]]))
    assert log.rows.tolist() == [[4, 1, 6]]


def test_the_last_change_of_a_full_part_can_still_grow():
    log = ChangeLog()
    for tick in range(CHUNK):
        log.add(tick, 0, 1)
    log.add(CHUNK - 1, 0, 1)
    log.add(CHUNK, 0, 1)
    assert log.rows[-2:].tolist() == [[CHUNK - 1, 0, 2], [CHUNK, 0, 1]]


@pytest.mark.parametrize("least", [-128, -129, -(2**15) - 1, -(2**31) - 1, -(2**63)])
def test_amounts_that_are_only_released_are_kept(least):
    log = ChangeLog()
    for tick in range(CHUNK + 1):
        log.add(tick, 0, least)
    assert set(log.rows[:, 2].tolist()) == {least}


def test_a_copy_does_not_change():
    log = ChangeLog()
    log.add(1, 0, 1)
    copy = log.copy()
    log.add(1, 0, 1)
    assert copy.rows.tolist() == [[1, 0, 1]]


def test_a_change_takes_six_bytes():
    log = ChangeLog()
    log.extend(random_changes(10 * CHUNK, 1000, 1, 40))
    assert log.nbytes <= 6 * 9 * CHUNK + 24 * CHUNK
