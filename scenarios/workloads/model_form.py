"""Schema of ``workload.model``, for editors and ``explain``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ConfigDict, GetJsonSchemaHandler, TypeAdapter

from ...models.training.description.described import Described, Text
from ...models.training.description.description import ImageNetwork, Recommender, Transformer


@dataclass(frozen=True)
class HuggingFaceConfig(Described):
    """A Hugging Face ``config.json``, given key by key.

    Parameters
    ----------
    model_type : model family, such as ``llama``; it decides which other keys apply
    """

    __pydantic_config__ = ConfigDict(extra="allow")
    model_type: Text


class _Form:
    """JSON schema of all model descriptions, made from their dataclasses."""

    def __get_pydantic_json_schema__(self, _: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        every: Any = Transformer | ImageNetwork | Recommender | HuggingFaceConfig
        return handler(TypeAdapter(every).core_schema)


DescribedModel = Annotated[dict[str, Any], _Form()]
"""Model description key by key, as ``read_description`` checks it."""
