"""Texts on chains of backends: the share of op time that each backend of a chain provides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..numbers import format_share

NAMED = 3  # ops in a sentence
LEAST = 0.0005  # smallest share that is shown
LONGEST = 60  # letters of a kernel's name
OPERATOR = re.compile(r"[\w:.]+(?=/| \w+\[|$)")
MEANT = {"gpu": "kernels", "dma": "copies", "host": "host work"}


def chain_backend_shares(chains: Mapping[str, Any]) -> dict[str, str]:
    """Text on the share of op time from each backend of a chain, by kind of op.

    Examples
    --------
    >>> links = [{"link": "carried", "share": 0.75}, {"link": "recorded", "share": 0.25}]
    >>> chains = {"gpu": {"links": links, "only_recorded": [{"op": "softmax", "share": 0.25}]}}
    >>> chain_backend_shares(chains)["kernels"]
    '75.0 % carried, 25.0 % recorded'
    """
    return {MEANT.get(kind, kind): _link_shares_text(chain) for kind, chain in chains.items()}


def _link_shares_text(chain: Mapping[str, Any]) -> str:
    shown = [f"{format_share(one['share'])} {one['link']}" for one in chain["links"]
             if one["share"] >= LEAST]  # fmt: skip
    return ", ".join(shown) or "nothing that takes time"


def largest_recorded_ops(chains: Mapping[str, Any]) -> str:
    """Text that lists the largest ops with times only in the recording; "" for none.

    >>> softmax = {"op": "softmax", "share": 0.25}
    >>> largest_recorded_ops({"gpu": {"links": [], "only_recorded": [softmax]}})
    'softmax (25.0 %)'
    """
    ops = [one for chain in chains.values() for one in chain["only_recorded"]
           if one["share"] >= LEAST]  # fmt: skip
    return ", ".join(
        f"{short_name(one['op'])} ({format_share(one['share'])})" for one in ops[:NAMED]
    )


def short_name(signature: str) -> str:
    """Short name of an op for a sentence: its operator, else its kernel, without arguments.

    >>> short_name("compute:aten::mm/void cutlass::Kernel<a, b>(c) bf16[8x8]")
    'aten::mm'
    >>> short_name("compute:void my::kernel<float, 4>(int, int)")
    'my::kernel'
    """
    name = (signature.partition(":")[2] or signature).replace("(anonymous namespace)::", "")
    operator = OPERATOR.match(name)
    name = operator[0] if operator else re.split(r"[<(]", name.removeprefix("void "))[0]
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}…"


def chain_sentences(chains: Mapping[str, Any]) -> list[str]:
    """Sentences on the sources of op times; an empty list without chains."""
    shares = "; ".join(f"{what} {text}" for what, text in chain_backend_shares(chains).items())
    largest = largest_recorded_ops(chains)
    texts = [f"Source of op times: {shares}."] if shares else []
    return [*texts, *([f"Only the recording has times for {largest}."] if largest else [])]
