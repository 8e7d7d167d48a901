"""Gradients of a recorded backward pass."""

import pytest
from foretrace.sim.errors import TraceError
from foretrace.traces.infer.ranks.gradients import GRADIENT, gradients


@pytest.mark.parametrize(
    ("dtype", "bytes_"), [("float", 48), ("c10::BFloat16", 24), ("c10::Float8_e4m3fn", 12)]
)
def test_a_gradient_is_as_large_as_its_elements(dtype, bytes_, script, tmp_path):
    s = script()
    s.step(1, 10, 90)
    s.op(GRADIENT, 20, 5, **{"Input Dims": [[3, 4]], "Input type": [dtype]})
    found = gradients(s.read(tmp_path))
    assert (found.bytes.tolist(), found.step.tolist()) == ([bytes_], [0])
    assert found.time == pytest.approx([15e-6])


def test_a_gradient_without_a_shape_is_refused(script, tmp_path):
    s = script()
    s.step(1, 10, 90)
    s.op(GRADIENT, 20, 5)
    with pytest.raises(TraceError, match="record_shapes=True"):
        gradients(s.read(tmp_path))
