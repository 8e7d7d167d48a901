"""128-bit integers as two int64 words: a signed high word and an unsigned low word.

Remaining work is measured in rate units x ticks, up to 2^127, and must be exact. In interpreted
mode, overflow of the unsigned words raises a NumPy warning, so callers use
``np.errstate(over="ignore")``.
"""

from __future__ import annotations

import numpy as np

from ...kernel.jit import Int, jit_without_refcounts

MAX = 2**63 - 1
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_BASE = np.uint64(1 << 32)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_TOP = np.uint64(MAX)


@jit_without_refcounts
def add(ah: Int, al: Int, bh: Int, bl: Int) -> tuple[Int, Int]:
    """128-bit sum ``a + b``.

    >>> add(np.int64(0), np.int64(-1), np.int64(0), np.int64(1)) == (1, 0)  # 2^64 - 1 + 1
    True
    """
    low = np.uint64(al) + np.uint64(bl)
    carry = np.int64(1) if low < np.uint64(al) else np.int64(0)
    return ah + bh + carry, np.int64(low)


@jit_without_refcounts
def sub(ah: Int, al: Int, bh: Int, bl: Int) -> tuple[Int, Int]:
    """128-bit difference ``a - b``.

    >>> sub(np.int64(1), np.int64(0), np.int64(0), np.int64(1)) == (0, -1)  # 2^64 - 1
    True
    """
    borrow = np.int64(1) if np.uint64(al) < np.uint64(bl) else np.int64(0)
    return ah - bh - borrow, np.int64(np.uint64(al) - np.uint64(bl))


@jit_without_refcounts
def less(ah: Int, al: Int, bh: Int, bl: Int) -> bool:
    """True if ``a < b``, for 128-bit integers.

    >>> bool(less(np.int64(0), np.int64(1), np.int64(0), np.int64(-1)))  # 1 < 2^64 - 1
    True
    """
    return bool(ah < bh or (ah == bh and np.uint64(al) < np.uint64(bl)))


@jit_without_refcounts
def mul(a: Int, b: Int) -> tuple[Int, Int]:
    """128-bit product ``a * b`` of two non-negative 64-bit integers.

    >>> hi, lo = mul(np.int64(2**62), np.int64(2**62))
    >>> (int(hi) << 64) + int(lo) == 2**124
    True
    """
    x, y = np.uint64(a), np.uint64(b)
    x1, x0 = x >> _HALF, x & _LOW
    y1, y0 = y >> _HALF, y & _LOW
    low = x0 * y0
    first = x1 * y0 + (low >> _HALF)
    second = x0 * y1 + (first & _LOW)
    high = x1 * y1 + (first >> _HALF) + (second >> _HALF)
    return np.int64(high), np.int64((second << _HALF) | (low & _LOW))


@jit_without_refcounts
def div(ah: Int, al: Int, d: Int) -> Int:
    """Quotient ``min(a // d, MAX)`` of a 128-bit ``a >= 0`` and ``d > 0``, by long division.

    >>> int(div(np.int64(2**60), np.int64(5), np.int64(2**62))) == 2**62
    True
    """
    if ah >= d:
        return np.int64(MAX)
    if ah == 0:
        short = np.uint64(al) // np.uint64(d)
        return np.int64(min(short, _TOP))
    high, low, divisor = np.uint64(ah), np.uint64(al), np.uint64(d)
    shift = _ZERO
    while divisor < (_ONE << np.uint64(63)):  # the estimate of a digit is then at most 2 too large
        divisor <<= _ONE
        shift += _ONE
    if shift > _ZERO:
        high = (high << shift) | (low >> (np.uint64(64) - shift))
        low <<= shift
    q1, rest = _digit(high, low >> _HALF, divisor)
    q0, _ = _digit(rest, low & _LOW, divisor)
    return np.int64(min((q1 << _HALF) | q0, _TOP))


@jit_without_refcounts
def _digit(high: np.uint64, digit: np.uint64, divisor: np.uint64) -> tuple[np.uint64, np.uint64]:
    """One step of long division: ``divmod(high * 2**32 + digit, divisor)``."""
    d1, d0 = divisor >> _HALF, divisor & _LOW
    q = high // d1
    rest = high - q * d1
    while q >= _BASE or q * d0 > ((rest << _HALF) | digit):
        q -= _ONE
        rest += d1
        if rest >= _BASE:
            break
    return q, ((high << _HALF) | digit) - q * divisor
