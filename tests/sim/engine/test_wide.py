"""128-bit words compared with Python integers, at carries and digit boundaries."""

import os
import random
from collections.abc import Iterator

import numpy as np
import pytest
from foretrace.sim.media.max_min.int128 import MAX, add, div, less, mul, sub
from foretrace.sim.media.max_min.pairing_heap import ABSENT, NODE, NONE, insert, remove

MANY = 1_000 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 20_000


@pytest.fixture(autouse=True)
def _words_wrap() -> Iterator[None]:
    with np.errstate(over="ignore"):
        yield


def words(x: int) -> tuple[np.int64, np.int64]:
    return np.int64(x >> 64), np.uint64(x & (2**64 - 1)).astype(np.int64)


def number(pair: tuple[int, int]) -> int:
    return (int(pair[0]) << 64) + int(pair[1]) % 2**64


def draw(rng: random.Random, bits: int) -> int:
    """Random integer of any length; often runs of ones, or close to a power of two."""
    n = rng.randint(0, bits)
    x = rng.choice([rng.getrandbits(n), 1 << n, (1 << n) - 1, (1 << n) + 1])
    return min(x, 2**bits - 1)


def test_128_bit_words_add_and_compare_like_integers() -> None:
    rng = random.Random(1)
    for _ in range(MANY):
        a, b = draw(rng, 126), draw(rng, 126)
        assert number(add(*words(a), *words(b))) == a + b
        assert number(sub(*words(a), *words(b))) == a - b
        assert less(*words(a - b), *words(b - a)) == (a < b)


def test_128_bit_words_multiply_and_divide_like_integers() -> None:
    rng = random.Random(2)
    for _ in range(MANY):
        x, y = draw(rng, 63), max(1, draw(rng, 63))
        assert number(mul(np.int64(x), np.int64(y))) == x * y
        a = max(0, rng.choice([x * y, x * y - 1, x * y + y - 1, draw(rng, 126)]))
        assert div(*words(a), np.int64(y)) == min(a // y, MAX)


def test_a_heap_gives_rows_in_order_whatever_is_taken_out() -> None:
    rng = random.Random(3)
    for _ in range(60 if MANY < 20_000 else 200):
        table = np.zeros((40, NODE), np.int64)
        table[:, -1] = ABSENT
        heap, inside = NONE, set()
        for _ in range(120):
            i = rng.randrange(40)
            if i in inside:
                heap = remove(table, heap, i)
                inside.remove(i)
            else:
                table[i, :2] = rng.randint(-3, 3), rng.choice([0, 1, -1])
                heap = insert(table, heap, i)
                inside.add(i)
            least = min((number(table[j, :2]) for j in inside), default=None)
            assert (heap == NONE) == (not inside)
            assert least is None or number(table[heap, :2]) == least
