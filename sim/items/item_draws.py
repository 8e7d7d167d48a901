"""Random numbers of items, keyed by the item's number and a purpose.

They equal ``random_bits`` and ``unit_exponential`` of ``sim/facts``, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..facts.items.arrival_process import exponential_of
from ..kernel.jit import Int, jit_without_refcounts

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
BY_30, BY_27, BY_31, BY_11, BY_32 = (np.uint64(n) for n in (30, 27, 31, 11, 32))
TO_UNIT = 2.0**-53


@jit_without_refcounts
def mixed(found: Any, key: Int) -> Any:
    """Random bits after one more key, as in ``random_bits``."""
    x = (found ^ np.uint64(np.int64(key))) + GOLDEN
    x = (x ^ (x >> BY_30)) * FIRST
    x = (x ^ (x >> BY_27)) * SECOND
    return x ^ (x >> BY_31)


@jit_without_refcounts
def keyed_bits(key: Int, number: Int, purpose: Int) -> Any:
    """64 random bits of one item and purpose."""
    return mixed(mixed(np.uint64(np.int64(key)), number), purpose)


@jit_without_refcounts
def to_unit(bits: Any) -> Any:
    """Uniform random number between 0 and 1, both excluded."""
    return (np.float64(np.int64(bits >> BY_11)) + 0.5) * TO_UNIT


_exponential_of = jit_without_refcounts(exponential_of)


@jit_without_refcounts
def to_exponential(bits: Any) -> Any:
    """Exponential random number with mean 1."""
    return _exponential_of(to_unit(bits))
