"""Base class of backends: what it refuses of a subclass."""

import pytest
from foretrace.sim.facts.backend import Backend


def test_a_backend_with_the_old_name_of_a_method_is_refused():
    with pytest.raises(TypeError, match=r"Old\.alike\(\) is now timing_groups\(\); rename it"):
        type("Old", (Backend,), {"alike": lambda self, system: None})
