"""Example of a collective algorithm: all-reduce in log2(n) steps, each with the complete data.

Thakur, Rabenseifner, Gropp 2005, doi:10.1177/1094342005051521: log2(n) (α + S / B), the fastest
for short vectors.
"""

from collections.abc import Iterator

import numpy as np
from foretrace.models.network.collective.patterns import depth, power_of_two
from foretrace.models.network.collective.steps import Step, algorithm


@algorithm("all-reduce", "recursive-doubling", usable=power_of_two)
def recursive_doubling(n: int) -> Iterator[Step]:
    """In each step, partners exchange all their data; the distance between partners doubles."""
    here = np.arange(n)
    for k in range(depth(n)):
        yield Step(here, here ^ (1 << k), parts=1)
