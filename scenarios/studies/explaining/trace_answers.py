"""For ``trace info``: which backends would time the kernels of a trace on GPUs of the catalog."""

from __future__ import annotations

from collections.abc import Iterable

from ....models.compute.chain import Chain
from ....models.compute.recorded import Recorded
from ....sim.errors import ScenarioError
from ....sim.facts.graph import Graph
from ...config.catalog import installed
from ...config.part_specs import Part, entry_model
from ...config.problems import did_you_mean_text
from ...config.reading.tree import to_dict
from ...config.settings import plain_settings
from ..building.chain_shares import Shares, kernel_shares
from ..building.component_backends import chain_for_other_gpu


def link_shares_by_gpu(graph: Graph, on: Iterable[str], recorded_on: str = "") -> dict[str, Shares]:
    """Fraction of kernel time that each backend of a chain would predict, by GPU, as in a run.

    Parameters
    ----------
    on : names of catalog GPUs
    recorded_on : GPU that recorded the trace; "" if unknown

    Raises
    ------
    ScenarioError
        The catalog lacks a name.
    """
    here = catalog_gpu(recorded_on) if recorded_on else None
    return {name: kernel_shares(graph, _chain_for_gpu(catalog_gpu(name), here)) for name in on}


def _chain_for_gpu(target: Part, recorded: Part | None) -> Chain:
    if recorded is not None and recorded.model == target.model:
        return Chain.of(Recorded())
    return chain_for_other_gpu(target, recorded)


def catalog_gpu(gpu: str) -> Part:
    """GPU part of the catalog by name.

    >>> catalog_gpu("a100-sxm4-80g").settings["peaks"]["bf16"]
    312000000000000.0
    """
    catalog = installed()
    entry = catalog.entry("gpu", gpu)
    if entry is None:
        raise ScenarioError(
            f"no gpu model named '{gpu}'{did_you_mean_text(gpu, catalog.names('gpu'))}; "
            "see: foretrace "
            "catalog gpu"
        )
    told = entry_model("gpu").model_validate(to_dict(entry))
    return Part("gpu", gpu, settings=plain_settings(told, only_given=True))
