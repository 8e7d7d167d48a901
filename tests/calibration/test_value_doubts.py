"""Doubts of values that nobody measured are what the catalog's own measurements say."""

import numpy as np
from foretrace.calibration.fit import value_doubts as learnt
from foretrace.models.value_doubts import ASSUMED_RATE, DATASHEET_RATE, UNMEASURED_TIME, WIDER


def test_the_constants_are_those_that_the_program_learns_from_the_catalog():
    reached = [-np.log(float(text)) for _, _, text in learnt.values(learnt.SHARES)]
    assert learnt.bounds(reached, centred=False)[:2] == DATASHEET_RATE
    assert (
        learnt.bounds(learnt.log_ratios_of_pairs(learnt.SHARES), centred=True)[:2] == ASSUMED_RATE
    )
    assert (
        learnt.bounds(learnt.log_ratios_of_pairs(learnt.TIMES), centred=True)[:2] == UNMEASURED_TIME
    )
    assert learnt.tail_to_median()[0] == WIDER
