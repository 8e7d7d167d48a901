"""A mapping of a file has at most 12 settings, and groups are at most two levels deep."""

import inspect
from typing import get_args

import pytest
from foretrace.models.compute.kernels import KernelFamily
from foretrace.models.network.part.node_spec import GpuSpec, NodeSpec
from foretrace.models.network.topology.wiring import TOPOLOGIES
from foretrace.models.parts import PARTS
from foretrace.models.training.description.description import Transformer
from foretrace.scenarios.config.part_specs import OURS
from foretrace.scenarios.config.schema import Section, json_schema
from foretrace.scenarios.config.settings import (
    constructor_model,
    known_backends,
    known_media,
    known_processes,
    known_workloads,
)
from foretrace.sim.facts.component import Component

MOST, DEEPEST = 12, 2
UNIONS = "_entry", "_part", "_backend", "_process", "_workload", "_topology", "_medium"
"""Mappings made of a constructor, which is counted itself, and of ``use``, ``model``, facts.

A part (``gpu``, ``library``) has the settings of each backend that may predict it, flat, so that a
backend's documentation is that of the part; constructors and facts are counted one by one.
"""
DESCRIBED = (NodeSpec, GpuSpec, Component, KernelFamily, Transformer)
"""Classes of descriptions that no key of a file constructs by itself."""


def constructors():
    known_backends()
    tables = (known_backends(), known_processes(), known_media(), known_workloads())
    return [item for table in (*tables, PARTS, TOPOLOGIES) for item in table.items()]


def groups(field):
    every = (field.annotation, *get_args(field.annotation))
    return [a for a in every if isinstance(a, type) and issubclass(a, Section)]


def widths(model, above=""):
    """(dotted name, settings, levels) of a model and of each group in it."""
    yield above, len(model.model_fields), above.count(".") + bool(above)
    for name, field in model.model_fields.items():
        for group in groups(field):
            yield from widths(group, f"{above}.{name}".lstrip("."))


def too_wide(cls):
    found = widths(constructor_model(cls))
    return [w for w in found if w[1] > MOST or w[2] > DEEPEST]


@pytest.mark.parametrize(("name", "cls"), constructors())
def test_a_constructor_and_its_groups_are_narrow(name, cls):
    assert not too_wide(cls)


@pytest.mark.parametrize(("name", "cls"), constructors())
def test_a_constructor_names_all_that_it_takes(name, cls):
    kinds = {p.kind for p in inspect.signature(cls).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds


@pytest.mark.parametrize("cls", DESCRIBED)
def test_a_description_is_narrow(cls):
    assert len(inspect.signature(cls).parameters) <= MOST


def test_facts_of_parts_are_few():
    assert all(len(kind.facts.model_fields) <= MOST for kind in OURS.values())


def test_sections_and_what_they_hold_are_narrow():
    """The top is not counted: plug-ins add keys to it."""
    known = json_schema()["$defs"].items()
    wide = {k for k, v in known if len(v.get("properties", {})) > MOST and not k.endswith(UNIONS)}
    assert not wide
