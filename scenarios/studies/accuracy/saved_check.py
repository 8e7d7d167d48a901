"""Upgrade of saved checks of earlier versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..variants.answers import usual_trace_answer


def upgraded_check(check: Mapping[str, Any]) -> dict[str, Any]:
    """Saved check in the current format; checks of earlier versions lack the deciding metric.

    >>> old = {"whole": {"real": {"iteration_time": 0.5}, "coupled": None}}
    >>> new = upgraded_check(old)
    >>> new["answer"]["metric"], new["whole"]
    ('iteration_time.p50', {'real': {'value': 0.5}, 'coupled': None})
    >>> upgraded_check(new) == new
    True
    """
    if "answer" in check:
        return dict(check)
    answer, whole = usual_trace_answer(), check.get("whole")
    if whole is not None:
        compared = {key: _rename_keys(whole.get(key), answer.sample) for key in ("real", "coupled")}
        whole = {**whole, **compared}
    return {**check, "answer": answer.to_dict(), "whole": whole}


def _rename_keys(row: Mapping[str, Any] | None, old: str) -> dict[str, Any] | None:
    return None if row is None else {"value" if k == old else k: v for k, v in row.items()}
