"""A file of another form than today's is refused."""

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.problems import InvalidScenarioError


@pytest.mark.parametrize(("form", "cure"), [(0, "see CHANGELOG"), (2, "pip install --upgrade")])
def test_another_form_is_an_error_with_a_cure(form, cure):
    rest = "name: old\nworkload: {trace: t.json}\ncluster: {nodes: 3, node: {gpu: {}}}\n"
    with pytest.raises(
        InvalidScenarioError, match=f"has format {form}, this version reads format 1; {cure}"
    ):
        loads(f"foretrace: {form}\n{rest}")
