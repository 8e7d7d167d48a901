"""Every value of the catalog has a unit, a source and a meaning."""

import datetime
import inspect
import json
import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from foretrace.scenarios.config.catalog import installed
from foretrace.scenarios.config.part_specs import Part
from foretrace.scenarios.config.settings import known_backends
from foretrace.sim.setting_groups import (
    construct_with_groups,
    group_in_annotation,
    unflatten_settings,
)
from foretrace.sim.units import Bytes, Unit, Watts, quantity
from ruamel.yaml import YAML

CHECKOUT = Path(__file__).parents[2]
FOLDER = CHECKOUT / "models" / "catalog"


def backend(kind, values):
    """What predicts a part: a backend of a plug-in where the part gives all that it requires."""
    return known_backends()[Part(kind, settings=values).backend()]


FACTS = {"memory": Bytes, "size": Bytes, "power": Watts}
COUNTS = ("cores", "streams", "copy_engines", "chip.processors", "scaled_block")
WANTED = {
    "gpu": ["a100-sxm4-80g", "h100-sxm5-80g", "h200-sxm-141g", "epyc-zen4-core", "b200-sxm-180g",
            "gb200-186g", "gh200-96g", "mi300x-192g", "v100-sxm2-32g", "a40", "l40s",
            "rtx-2080-ti", "rtx-4090", "rtx-pro-6000"],
    "nic": ["connectx-5", "connectx-6", "connectx-7", "efa-100g", "efa-400g", "slingshot-200g",
            "thor-2", "loopback-tcp"],
    "switch": ["tomahawk-3", "tomahawk-4", "tomahawk-5", "slingshot-rosetta", "nvswitch"],
    "link": ["pcie4-x16", "pcie5-x16", "pcie6-x16", "nvlink2", "nvlink3", "nvlink4", "nvlink5",
             "nvlink-c2c"],
    "cxl": ["cxl2-x16-expander"],
    "host": ["epyc-7742-dual", "xeon-8480c-dual", "epyc-zen4-vm"],
    "library": ["nccl-nvlink3", "nccl-nvlink4", "nccl-nvlink4-ofi", "nccl-tcp", "gloo", "gloo-lab"],
}  # fmt: skip


def flat(values, above=""):
    """Values with their source, those of groups by dotted name."""
    for key, value in values.items():
        if "source" in value:
            yield f"{above}{key}", value
        else:
            yield from flat(value, f"{above}{key}.")


def annotation(cls, key):
    """Annotation of a setting, of a group by dotted name; None for no setting."""
    head, _, rest = key.partition(".")
    hint = get_type_hints(cls.__init__, include_extras=True).get(head)
    return annotation(group_in_annotation(hint), rest) if rest else hint


def entries():
    """(file, kind, name, values) of every part."""
    for file in (sheet.file for sheet in installed().files):
        for kind, parts in YAML(typ="safe").load(file).items():
            for name, values in parts.items():
                yield file.name, kind, name, dict(flat(values))


ALL = list(entries())
PARTS = pytest.mark.parametrize(
    ("file", "kind", "name", "values"), ALL, ids=[f"{k}-{n}" for _, k, n, _ in ALL]
)


def unit(annotation):
    """The unit of an annotated parameter; None for text, numbers and switches."""
    for one in (annotation, *get_args(annotation)):
        for extra in getattr(one, "__metadata__", ()):
            if isinstance(extra, Unit):
                return extra
    return None


def settings(kind, values):
    """What the backend of a part is built with, in SI, by dotted name."""
    hints = {key: annotation(backend(kind, values), key) for key in values}
    return {
        key: v["value"] if unit(hints[key]) is None else quantity(v["value"], unit(hints[key]))
        for key, v in values.items()
        if hints[key] is not None
    }


@pytest.mark.parametrize("kind", WANTED)
def test_the_catalog_has_the_parts_that_scenarios_use(kind):
    assert {n for _, k, n, _ in ALL if k == kind} >= set(WANTED[kind])


@PARTS
def test_every_value_has_a_source(file, kind, name, values):
    for key, entry in values.items():
        assert set(entry) == {"value", "source"}, key
        source = entry["source"]
        assert {"kind", "where", "date", "error"} <= set(source), key
        assert set(source) <= {"kind", "where", "date", "error", "note", "program"}, key
        assert source["kind"] in ("datasheet", "measured", "fitted", "assumed"), key
        assert len(source["where"]) > 10, key
        assert isinstance(source["date"], datetime.date), key
        if source["kind"] == "fitted":
            assert source["error"] or source["note"], f"{key} is fitted: with which error?"
        if source["error"]:
            assert 0 <= quantity(source["error"], "") < 1, key


@PARTS
def test_every_key_means_something_and_every_value_has_its_unit(file, kind, name, values):
    for key, entry in values.items():
        value, hint = entry["value"], annotation(backend(kind, values), key)
        if key in COUNTS:
            assert isinstance(value, int)
            assert value >= 0
        elif key in FACTS and hint is None:
            assert quantity(value, unit(FACTS[key])) > 0
        else:
            assert hint is not None, f"{file}: {backend(kind, values).__name__} has no {key}"
            if unit(hint) is not None:
                assert quantity(value, unit(hint)) >= 0


@PARTS
def test_a_part_has_all_that_its_backend_needs(file, kind, name, values):
    made = construct_with_groups(backend(kind, values), unflatten_settings(settings(kind, values)))
    assert made.source
    needed = {
        p.name
        for p in inspect.signature(backend(kind, values)).parameters.values()
        if p.default is p.empty
    }
    assert needed <= set(values)


@PARTS
def test_a_share_is_above_0_and_at_most_1(file, kind, name, values):
    for key, entry in values.items():
        if "efficiency" in key:
            assert 0 < entry["value"] <= 1, key


def test_a_file_is_named_after_its_part():
    assert all(file == f"{name}.yaml" for file, _, name, _ in ALL)


def test_newer_gpus_of_the_list_are_not_slower():
    """A slip in a unit would show here: datasheet bf16 and bandwidth grow from A100 to H200."""
    chips = [settings("gpu", v) for name in WANTED["gpu"][:3] for _, _, n, v in ALL if n == name]
    assert [c["peaks.bf16"] / 1e12 for c in chips] == [312, 989.4, 989.4]
    assert [c["bandwidth"] / 1e12 for c in chips] == [2.039, 3.35, 4.8]


def test_the_loader_reads_the_whole_catalog():
    catalog = installed()
    for kind, names in WANTED.items():
        assert set(names) <= set(catalog.names(kind))


PROGRAM = re.compile(r"(calibration/\w+/\w+\.py)@[0-9a-f]{7}")


def require_program(told):
    """It is a program of this checkout, with a commit."""
    found = PROGRAM.fullmatch(told)
    assert found, told
    assert (CHECKOUT / found[1]).is_file(), told


@PARTS
def test_a_fitted_value_names_the_program_and_commit_that_made_it(file, kind, name, values):
    for told in values.values():
        if told["source"]["kind"] == "fitted":
            require_program(told["source"]["program"])


def test_files_of_many_constants_name_the_program_and_commit_that_made_them():
    files = [*(FOLDER / "kernels").glob("*.json"), FOLDER.parent / "compute" / "carried.json"]
    for file in files:
        require_program(json.loads(file.read_text())["program"])
    assert len(files) > 1
