"""Zoo of model descriptions: public configs by name, one file each with its source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from ....sim.errors import ScenarioError
from .description import Model
from .description_reader import read_description

ZOO = Path(__file__).parents[1] / "zoo"


def known_models() -> tuple[str, ...]:
    """Names of the models in the zoo.

    >>> "llama3-8b" in known_models()
    True
    """
    return tuple(sorted(f.stem for f in ZOO.glob("*.json")))


def model(name: str | Mapping[str, Any]) -> Model:
    """Model description by zoo name, by path of a Hugging Face ``config.json``, or from its keys.

    Raises
    ------
    ScenarioError
        The model is unknown, or the file is not a config.

    Examples
    --------
    >>> model("llama3-8b").hidden
    4096
    """
    if not isinstance(name, str):
        return read_description(name)
    if name.endswith(".json"):
        return _read_model(Path(name))
    file = ZOO / f"{name}.json"
    if not file.is_file():
        near = get_close_matches(name, known_models(), 1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known_models())}"
        raise ScenarioError(
            f"workload.model: no model '{name}'; {hint} Or name a Hugging Face config.json, or "
            "write its sizes"
        )
    return _read_bundled_model(file)


@cache
def _read_bundled_model(file: Path) -> Model:
    """Model description of the zoo; read once."""
    return _read_model(file)


def _read_model(file: Path) -> Model:
    """Model description from a config.

    Raises
    ------
    ScenarioError
        The file is not a config.
    """
    try:
        data = json.loads(file.read_text())
        if not isinstance(data, Mapping):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError) as error:
        raise ScenarioError(
            f"workload.model: {file} is not a config ({error}); name a Hugging Face config.json"
        ) from error
    described = data.get("model", data)
    return replace(read_description(described, str(file)), source=str(data.get("source", file)))
