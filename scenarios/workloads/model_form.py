"""Form of ``workload.model``: what may be said of a model, for editors and ``explain``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ConfigDict, GetJsonSchemaHandler, TypeAdapter

from ...models.training.description.described import Described, Text
from ...models.training.description.description import ImageNetwork, Recommender, Transformer


@dataclass(frozen=True)
class HuggingFaceConfig(Described):
    """A Hugging Face ``config.json``, key by key.

    Parameters
    ----------
    model_type : family of a Hugging Face config, which has its own keys beside it
    """

    __pydantic_config__ = ConfigDict(extra="allow")
    model_type: Text


class _Form:
    """The JSON schema of every description, made from its dataclasses."""

    def __get_pydantic_json_schema__(self, _: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        every: Any = Transformer | ImageNetwork | Recommender | HuggingFaceConfig
        return handler(TypeAdapter(every).core_schema)


DescribedModel = Annotated[dict[str, Any], _Form()]
"""A model said key by key; ``read_description`` checks it."""
