"""Page colours can be distinguished with and without colour vision, on light and on dark."""

import itertools
import re
from importlib.resources import files

import numpy as np
import pytest
from foretrace.reports.palette import BOXES, KINDS, OTHER_ROLES, SERIES
from foretrace.reports.run.pipeline import COLOURS, PALER, WEIGHTS

CSS = (files("foretrace.reports") / "templates" / "report.css").read_text()
SCHEMES = dict(zip(("light", "dark", "paper"), re.findall(r":root \{(.*?)\}", CSS), strict=True))
LEAST = 0.10  # in OKLab, where 0.02 can just be seen; that of Okabe and Ito's colours is 0.06
# Machado, Oliveira, Fernandes (2009), doi:10.1109/TVCG.2009.113, severity 1.0
EYES = {
    "all cones": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                 [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
LMS = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
       [0.0883024619, 0.2817188376, 0.6299787005]]  # fmt: skip
LAB = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
       [0.0259040371, 0.7827717662, -0.8086757660]]  # fmt: skip


def linear(colour):
    """Linear RGB of ``#1d4f9c`` or ``#fff``."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * d for d in colour[1:])
    value = np.array([int(digits[i : i + 2], 16) for i in (0, 2, 4)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def seen(colour, eye):
    """OKLab coordinates of a colour for a kind of colour vision."""
    light = np.clip(np.array(EYES[eye]) @ linear(colour), 0, 1)
    return np.array(LAB) @ np.cbrt(np.array(LMS) @ light)


def colours(scheme):
    return dict(re.findall(r"--([\w-]+): (#\w+)", SCHEMES[scheme]))


def named(properties):
    return list(dict.fromkeys(re.sub(r"var\(--|\)|^--", "", p) for p in properties))


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "of", [(*BOXES.values(), *KINDS.values(), *OTHER_ROLES), SERIES], ids=["time", "series"]
)
def test_colours_can_be_distinguished(scheme, eye, of):
    known = colours(scheme)
    for a, b in itertools.combinations(named(of), 2):
        apart = np.linalg.norm(seen(known[a], eye) - seen(known[b], eye))
        assert apart > LEAST, (scheme, eye, a, b, apart)


def mixed_with_paper(colour, paper, percent):
    """Result of ``color-mix(in srgb, …)`` with the paper colour."""
    digits = [colour, paper if len(paper) == 7 else "#" + "".join(2 * d for d in paper[1:])]
    a, b = ([int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in digits)
    own = percent / 100
    return "#" + "".join(f"{round(x * own + y * (1 - own)):02x}" for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_colours_of_pipeline_passes_and_chunks_can_be_distinguished(scheme, eye):
    known = colours(scheme)
    full = {n: known[n] for n in named(COLOURS.values())}
    (weights,) = named([COLOURS[WEIGHTS]])
    pale = [mixed_with_paper(c, known["paper"], PALER) for n, c in full.items() if n != weights]
    for a, b in itertools.combinations([*full.values(), *pale, known["paper"]], 2):
        assert np.linalg.norm(seen(a, eye) - seen(b, eye)) > LEAST, (scheme, eye, a, b)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_idle_and_gap_are_nearest_to_the_paper(scheme):
    """In the dark style they were once the brightest colours."""
    known = colours(scheme)
    paper = seen(known["paper"], "all cones")[0]
    far = {n: abs(seen(known[n], "all cones")[0] - paper) for n in named(BOXES.values())}
    assert min(far, key=far.get) == "idle"


def test_paper_has_the_colours_of_light():
    light, paper = colours("light"), colours("paper")
    assert {n: light[n] for n in named((*BOXES.values(), *SERIES))} == {
        n: paper[n] for n in named((*BOXES.values(), *SERIES))
    }
