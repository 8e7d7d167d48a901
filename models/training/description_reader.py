"""Reader of descriptions: plain data, as a scenario or the zoo has it, checked key by key."""

from __future__ import annotations

import logging
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from ...sim.errors import ScenarioError
from .description import (
    Adapted,
    Branches,
    ImageNetwork,
    Model,
    Part,
    Recommender,
    Repeated,
    Transformer,
)
from .hugging_face import read_config

log = logging.getLogger(__name__)

T = TypeVar("T")
BRANCHES = {"sum": True, "join": False}


def read_description(data: Mapping[str, Any], where: str = "workload.model") -> Model:
    """Description from its keys: a transformer; with ``parts``, ``tables``, ``model_type`` another.

    Parameters
    ----------
    where : names it in messages

    Raises
    ------
    ScenarioError
        A key that is not known, missing, or has a value that cannot be.

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
        parts = _read_parts(data["parts"], f"{where}.parts")
        return _read_fields(ImageNetwork, {**data, "parts": ()}, where, parts=parts)
    if "tables" in data:
        return _read_fields(Recommender, data, where)
    model = _read_fields(Transformer, _with_current_names(data, where), where)
    _check_sizes(model, where)
    return model


def _with_current_names(data: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """A description whose keys have the names of today; old ones are read for one release."""
    for old, new in Transformer.renamed_settings.items():
        group, _, key = new.partition(".")
        beside = data.get(group, {})
        if old not in data or not isinstance(beside, Mapping):
            continue
        if key in beside:
            raise ScenarioError(
                f"{where}.{old}: is the old name of {new}, which is given too; keep {new}"
            )
        log.warning("%s.%s: is now %s; rename it, release 0.3 drops the old name",
                    where, old, new)  # fmt: skip
        rest = {k: v for k, v in data.items() if k != old}
        data = {**rest, group: {**beside, key: data[old]}}
    return data


def _check_sizes(model: Transformer, where: str) -> None:
    """Refuse sizes that do not go together, with the nearest that do."""
    experts, patches, attention = model.experts, model.tokens.patches, model.attention
    heads, keys = model.heads, model.key_value_heads
    if not (attention.head or attention.latent) and model.hidden % heads:
        near = _nearest_divisor(model.hidden, heads)
        raise ScenarioError(
            f"{where}.heads: {heads} heads do not share a width of {model.hidden} evenly; take "
            f"{near}, or say attention.head, the width of one"
        )
    if heads % keys:
        raise ScenarioError(
            f"{where}.attention.key_heads: {keys} heads of keys are not shared by {heads} heads "
            f"evenly; take {_nearest_divisor(heads, keys)}"
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
    """Refuse adapters of products that the model has not.

    Raises
    ------
    ScenarioError
        No rank, no product, or one of attention or a network of another kind.
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
                f"{where}.of[{number}]: latent attention makes queries, keys and values by several "
                "products; leave it out"
            )
        if name.startswith("feed-forward") and model.experts:
            raise ScenarioError(
                f"{where}.of[{number}]: experts have no adapters here; leave it out"
            )


def _nearest_divisor(number: int, to: int) -> int:
    """Divisor of a number that is nearest to another, the smaller of two.

    >>> _nearest_divisor(64, 5), _nearest_divisor(12, 5)
    (4, 4)
    """
    every = (d for d in range(1, number + 1) if number % d == 0)
    return min(every, key=lambda d: (abs(d - to), d))


def _read_fields(cls: type[T], data: Any, where: str, **known: Any) -> T:
    """A dataclass from a mapping of its fields, each checked by its type."""
    if not isinstance(data, Mapping):
        raise ScenarioError(f"{where}: is {data!r}; write its keys below it")
    hints = get_type_hints(cls)
    own = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    for key in data:
        if key not in own:
            near = get_close_matches(str(key), own, 1)
            cure = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(own)}"
            raise ScenarioError(f"{where}.{key}: is not known; {cure}")
    missing = [name for name, f in own.items() if f.default is MISSING and name not in data]
    if missing:
        raise ScenarioError(f"{where}: has no {missing[0]}; add it")
    for name, f in own.items():
        if f.default is MISSING and data[name] == 0:
            raise ScenarioError(f"{where}.{name}: is 0; write a whole number above it")
    read = {key: _read_value(hints[key], v, f"{where}.{key}") for key, v in data.items()}
    return cls(**{**read, **known})


def _read_value(kind: Any, value: Any, where: str) -> Any:
    """A value of a field."""
    if isinstance(kind, types.UnionType):
        (kind,) = (k for k in get_args(kind) if k is not type(None))
    if is_dataclass(kind):
        return _read_fields(kind, value, where)  # type: ignore[arg-type]
    if get_origin(kind) is Literal:
        known = get_args(kind)
        if value not in known:
            near = get_close_matches(str(value), known, 1)
            cure = f"did you mean '{near[0]}'?" if near else f"take one of {', '.join(known)}"
            raise ScenarioError(f"{where}: is {value!r}; {cure}")
        return value
    if get_origin(kind) is tuple:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise ScenarioError(f"{where}: is {value!r}; write a list")
        each = get_args(kind)[0]
        return () if each is Part else tuple(
            _read_value(each, v, f"{where}[{i}]") for i, v in enumerate(value)
        )  # fmt: skip
    if type(value) is not kind or (kind is int and value < 0):
        words = {int: "a whole number", bool: "true or false", str: "words"}
        raise ScenarioError(f"{where}: is {value!r}; write {words[kind]}")
    return value


def _read_parts(data: Any, where: str) -> tuple[Part, ...]:
    """Parts of a network of images: lines, ``{times, of}``, ``{sum}`` and ``{join}``."""
    if not isinstance(data, Sequence) or isinstance(data, str):
        raise ScenarioError(f"{where}: is {data!r}; write a list of parts")
    return tuple(_read_part(part, f"{where}[{i}]") for i, part in enumerate(data))


def _read_part(data: Any, where: str) -> Part:
    if isinstance(data, str):
        return data
    if isinstance(data, Mapping) and set(data) == {"times", "of"}:
        times = _read_value(int, data["times"], f"{where}.times")
        return Repeated(times, _read_parts(data["of"], f"{where}.of"))
    if isinstance(data, Mapping) and len(data) == 1 and set(data) <= set(BRANCHES):
        ((word, ways),) = data.items()
        return Branches(
            tuple(_read_parts(way, f"{where}.{word}[{i}]") for i, way in enumerate(ways)),
            BRANCHES[word],
        )
    raise ScenarioError(
        f"{where}: is {data!r}; write a line like 'conv 64 3', or times and of, or sum, or join"
    )
