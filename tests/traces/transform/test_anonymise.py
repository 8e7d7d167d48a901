"""An anonymised trace gives nothing away, and is still the same work."""

import numpy as np
import pytest
from foretrace.traces.event_columns import TABLES
from foretrace.traces.formats import kineto, native
from foretrace.traces.transform.anonymise import anonymise

SECRETS = ("ada", "acme", "hush")


@pytest.fixture
def private(script, tmp_path):
    """Kernels, operators, ranges, functions and modules under names of one's own."""
    made = script(deviceProperties=[{"id": 0, "name": "NVIDIA H100"}], traceName="/home/ada/t.json")
    made.step(1, 0, 400)
    made.op("acme::fused_mlp", 10, 80, **{"Input Dims": [[4, 8]], "Input type": ["float"]})
    made.op("aten::mm", 12, 30, **{"Concrete Inputs": ["3", "/home/ada/x"]})
    made.launch(20, 120, 50, name="hush_kernel<float, 4>")
    made.launch(30, 180, 50, name="void at::native::vectorized_elementwise_kernel<4, float>(int)")
    made.launch(40, 240, 50, name="void cutlass::Kernel<acme::Epilogue>(int)")
    made.add("python_function", "/home/ada/acme/train.py(12): step", 5, 300)
    made.add("python_function", "nn.Module: AcmeBlock_0", 6, 200)
    made.add("user_annotation", "hush: phase two", 7, 100)
    return made.write(tmp_path, "ada-laptop.json.gz")


def test_no_private_name_is_left_after_anonymising(private, tmp_path):
    trace = anonymise(kineto.read(private))
    folder = native.write(trace, tmp_path / "out")
    told = repr((native.read(folder).strings, trace.tracks, trace.processes, trace.notes)).lower()
    told += (folder / "trace.json").read_text().lower()
    assert not [secret for secret in SECRETS if secret in told]


def test_public_names_are_kept_when_anonymising(private):
    names = set(anonymise(kineto.read(private)).text("name").tolist())
    assert {"aten::mm", "ProfilerStep#1", "cudaLaunchKernel", "op-1", "kernel-1"} <= names
    assert "void at::native::vectorized_elementwise_kernel<4, float>(int)" in names
    assert "void cutlass::Kernel<arguments-1>" in names
    assert "nn.Module: module-1" in names


def test_anonymising_keeps_times_shapes_and_structure(private):
    trace = kineto.read(private)
    hidden = anonymise(trace)
    for name, columns in TABLES.items():
        for column, about in columns.items():
            if "`strings`" not in about.meaning:
                left, right = getattr(trace, name)[column], getattr(hidden, name)[column]
                np.testing.assert_array_equal(left, right, f"{name}.{column}")
    before, after = trace.graph(), hidden.graph()
    np.testing.assert_array_equal(before.ops.duration, after.ops.duration)
    np.testing.assert_array_equal(before.ops.kind, after.ops.kind)
    np.testing.assert_array_equal(
        before.explicit.successors.values, after.explicit.successors.values
    )


def test_equal_texts_get_equal_replacements(script, tmp_path):
    made = script()
    made.step(1, 0, 100)
    for i, name in enumerate(["hush::a", "hush::b", "hush::a"]):
        made.op(name, 10 + 10 * i, 5)
    names = anonymise(made.read(tmp_path)).text("name").tolist()
    assert names[1:] == ["op-1", "op-2", "op-1"]
