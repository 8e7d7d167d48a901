"""Reader of model descriptions: plain data from a scenario or the zoo, validated key by key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from ....sim.errors import ScenarioError
from ....sim.setting_groups import with_current_names
from .description import KINDS_OF_PART, Adapted, ImageNetwork, Model, Recommender, Transformer
from .hugging_face import read_config

T = TypeVar("T")
TAGS = ("[line]", *KINDS_OF_PART.values())
FIRST = {"unexpected_keyword_argument": 0, "missing": 1}
CURES = {
    "dataclass_type": "its keys below it",
    "tuple_type": "a list",
    "int_type": "a whole number",
    "greater_than": "a whole number above 0",
    "greater_than_equal": "a whole number, 0 or above",
    "bool_type": "true or false",
    "string_type": "text",
    "part": "a line like 'conv 64 3', or times and of, or sum, or join",
}
"""What to write instead, by the type of pydantic's error."""


def read_description(data: Mapping[str, Any], where: str = "workload.model") -> Model:
    """Read a model description: a transformer, or by its keys an image network or recommender.

    The key ``parts`` marks an image network, ``tables`` a recommender, ``model_type`` a Hugging
    Face config.

    Parameters
    ----------
    where : location of the description, for error messages

    Raises
    ------
    ScenarioError
        A key is unknown or missing, or has an invalid value.

    Examples
    --------
    >>> sizes = {"hidden": 8, "layers": 2, "heads": 2, "vocabulary": 10, "inner": 32}
    >>> read_description(sizes).layers
    2
    >>> read_description({"image": 32, "parts": ["conv 8 3", "linear 10"]}).image
    32
    >>> read_description({"hiden": 8})
    Traceback (most recent call last):
    foretrace.sim.errors.ScenarioError: workload.model.hiden: is not known; did you mean 'hidden'?
    """
    if "model_type" in data:
        return read_config(data, where)
    if "parts" in data:
        return _read(ImageNetwork, data, where)
    if "tables" in data:
        return _read(Recommender, data, where)
    model = _read(Transformer, with_current_names(Transformer, data, where), where)
    _check_sizes(model, where)
    return model


def _check_sizes(model: Transformer, where: str) -> None:
    """Raise an error for sizes that do not match; it names the nearest size that does."""
    experts, patches, attention = model.experts, model.tokens.patches, model.attention
    heads, keys = model.heads, model.key_value_heads
    if not (attention.head or attention.latent) and model.hidden % heads:
        near = _nearest_divisor(model.hidden, heads)
        raise ScenarioError(
            f"{where}.heads: width {model.hidden} is not divisible by {heads} heads; use {near}, "
            "or write attention.head, the width of a head"
        )
    if heads % keys:
        raise ScenarioError(
            f"{where}.attention.key_heads: {heads} query heads are not divisible by {keys} key "
            f"heads; use {_nearest_divisor(heads, keys)}"
        )
    if experts and experts.chosen > experts.count:
        raise ScenarioError(
            f"{where}.experts.chosen: a token chooses {experts.chosen} of {experts.count} experts; "
            f"take {experts.count}"
        )
    if experts and experts.dense_layers > model.layers:
        raise ScenarioError(
            f"{where}.experts.dense_layers: is {experts.dense_layers} of {model.layers} layers; "
            f"take {model.layers}"
        )
    check_adapters(model, f"{where}.adapters")
    if patches and patches.image % patches.patch:
        raise ScenarioError(
            f"{where}.tokens.patches.patch: patches of {patches.patch} pixels do not tile an image "
            f"of {patches.image}; take {_nearest_divisor(patches.image, patches.patch)}"
        )


def check_adapters(model: Transformer, where: str) -> None:
    """Raise an error for adapters of GEMMs that the model does not have.

    Raises
    ------
    ScenarioError
        The rank is 0, no GEMM is named, or the model has no such GEMM.
    """
    if model.adapters is None:
        return
    if not model.adapters.rank:
        raise ScenarioError(f"{where}.rank: is 0; write a whole number above it")
    if not model.adapters.of:
        raise ScenarioError(f"{where}.of: is empty; name one of {', '.join(get_args(Adapted))}")
    for number, name in enumerate(model.adapters.of):
        if name == "query-key-value" and model.attention.latent:
            raise ScenarioError(
                f"{where}.of[{number}]: latent attention makes queries, keys and values with "
                f"several GEMMs, to which no adapter can be added; remove {name} here"
            )
        if name.startswith("feed-forward") and model.experts:
            raise ScenarioError(
                f"{where}.of[{number}]: adapters of experts are not supported; remove {name} here"
            )


def _nearest_divisor(number: int, to: int) -> int:
    """Divisor of ``number`` nearest to ``to``; the smaller one on a tie.

    >>> _nearest_divisor(64, 5), _nearest_divisor(12, 5)
    (4, 4)
    """
    every = (d for d in range(1, number + 1) if number % d == 0)
    return min(every, key=lambda d: (abs(d - to), d))


def _read(cls: type[T], data: Any, where: str) -> T:
    """Create a description from plain data, validated by its field types."""
    try:
        return TypeAdapter(cls).validate_python(data)
    except ValidationError as error:
        first = min(error.errors(), key=lambda e: FIRST.get(e["type"], len(FIRST)))
        raise ScenarioError(_message_text(first, cls, where)) from error


def _message_text(error: Any, cls: type, where: str) -> str:
    """Error message for one pydantic error: location, value, and what to write."""
    kind, path = error["type"], [p for p in error["loc"] if p not in TAGS]
    places = [where, *(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)]
    place, value = "".join(places), error["input"]
    if kind == "missing":
        return f"{''.join(places[:-1])}: has no {path[-1]}; add it"
    if kind == "unexpected_keyword_argument":
        known = [f.name for f in fields(_class_at(cls, path[:-1]))]
        return f"{place}: is not known; {_nearest_or_all(path[-1], known, 'there are')}"
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", error["ctx"]["expected"])
        return f"{place}: is {value!r}; {_nearest_or_all(value, known, 'take one of')}"
    return f"{place}: is {value!r}; write {CURES.get(kind, error['msg'])}"


def _class_at(cls: type, path: list[Any]) -> Any:
    """Dataclass of the object at a path of description keys."""
    found: Any = cls
    for name in path:
        hint = get_type_hints(found)[name]
        found = next(c for c in (hint, *get_args(hint)) if is_dataclass(c))
    return found


def _nearest_or_all(name: object, known: Sequence[str], words: str) -> str:
    near = get_close_matches(str(name), known, 1)
    return f"did you mean '{near[0]}'?" if near else f"{words} {', '.join(known)}"
