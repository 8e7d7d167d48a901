"""Sheet for a printed figure: its width in columns of a paper, and its style.

matplotlib is imported only when something is drawn.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...sim.errors import ForetraceError
from ..palette import rgb

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

WIDTHS = {1: 3.3, 2: 7.0}  # inches, by columns
TALLEST = 8.6  # inches: a page of a paper
POINTS = 72  # of an inch
LETTER = 0.58  # mean width of a letter, of its height
SMALL, NORMAL = 7.0, 8.0  # points
ELLIPSIS = "…"
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same on every machine
    "font.size": NORMAL,
    "axes.labelsize": NORMAL,
    "axes.titlesize": NORMAL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "lines.linewidth": 1.1,
    "lines.markersize": 4.0,
    "patch.linewidth": 0.0,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "legend.columnspacing": 1.0,
    "legend.handletextpad": 0.5,
    "legend.borderpad": 0.1,
    "figure.constrained_layout.w_pad": 0.02,
    "figure.constrained_layout.h_pad": 0.03,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,  # whole outlines: text can be selected, and publishers take it
    "ps.fonttype": 42,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "foretrace",  # the same names in the same drawing
}


@dataclass(frozen=True)
class Sheet:
    """Size and style of a printed figure.

    Parameters
    ----------
    columns : width in paper columns: 1 is 3.3 inches, 2 is 7
    style : matplotlib style sheet applied over the product's own; None for none
    """

    columns: int = 1
    style: Path | None = None

    @property
    def width(self) -> float:
        """Width in inches.

        >>> Sheet().width, Sheet(2).width
        (3.3, 7.0)
        """
        return WIDTHS[self.columns]

    @contextmanager
    def styled(self) -> Iterator[None]:
        """Context in which matplotlib uses the sheet's settings, for drawing and writing."""
        import matplotlib as mpl
        import matplotlib.style

        with mpl.rc_context():
            mpl.rcdefaults()  # not what the user's own settings say
            mpl.rcParams.update(STYLE)
            if self.style is not None:
                try:
                    mpl.style.use(self.style)
                except (OSError, ValueError, KeyError) as error:
                    raise ForetraceError(
                        f"--style {self.style}: not a matplotlib style sheet ({error}); "
                        "see matplotlib.org, 'Customizing Matplotlib with style sheets'"
                    ) from error
            yield

    def canvas(self, height: float) -> Drawing:
        """An empty figure of the sheet's width and the given height in inches."""
        from matplotlib.figure import Figure

        return Figure(figsize=(self.width, min(height, TALLEST)), layout="constrained")

    def letters(self, inches: float, points: float = SMALL) -> int:
        """Number of characters that fit in a width in inches.

        >>> Sheet().letters(1.0)
        17
        """
        return max(int(inches * POINTS / (LETTER * points)), 1)


def text_width(text: str, points: float = SMALL) -> float:
    """Approximate width of a text in inches."""
    longest = max((len(line) for line in text.split("\n")), default=0)
    return longest * LETTER * points / POINTS


def shorten_text(text: str, letters: int) -> str:
    """Shorten a text to at most ``letters`` characters by leaving out its middle.

    >>> shorten_text("node0.gpu0.memory", 11), shorten_text("node0", 11)
    ('node0…emory', 'node0')
    """
    if len(text) <= letters:
        return text
    end = max((letters - 1) // 2, 1)
    return f"{text[: max(letters - 1 - end, 1)]}{ELLIPSIS}{text[-end:]}"


def shorten_texts(texts: Sequence[str], letters: int) -> list[str]:
    """Shorten texts to at most ``letters`` characters each; equal results are numbered.

    >>> shorten_texts(["a long name: 1 of it", "a long name: 2 of it"], 9)
    ['a lo… (1)', 'a lo… (2)']
    """
    short = [shorten_text(text, letters) for text in texts]
    found, count = [], dict.fromkeys(short, 0)
    for text, whole in zip(short, texts, strict=True):
        alike = {w for s, w in zip(short, texts, strict=True) if s == text}
        if len(alike) == 1:
            found.append(text)
            continue
        count[text] += 1
        end = f"{ELLIPSIS} ({count[text]})"
        found.append(whole[: max(letters - len(end), 1)] + end)
    return found


def wrap_text(text: str, letters: int) -> str:
    """Wrap a text into lines of at most ``letters`` characters."""
    return "\n".join(textwrap.fill(line, max(letters, 8)) for line in text.split("\n"))


def hatch_pattern(colour: str) -> str:
    """Hatch pattern of a colour, so that colours can be distinguished in greyscale.

    >>> hatch_pattern("compute"), hatch_pattern("exposed"), hatch_pattern("exposed @ 45")
    ('', '////', '////')
    """
    return HATCHES.get(colour.partition(" @ ")[0], "")


HATCHES = {
    "overlapped": "....",
    "exposed": "////",
    "memory": "\\\\\\\\",
    "waiting": "xxxx",
    "host": "----",
    "series-2": "////",
    "series-3": "....",
    "series-4": "\\\\\\\\",
    "series-5": "----",
    "series-6": "xxxx",
}


def hatch_colour(colour: str) -> tuple[float, float, float]:
    """Colour of a hatch pattern: white on dark colours, the text colour on pale ones.

    >>> hatch_colour("compute"), hatch_colour("idle") == rgb("ink")
    ((1.0, 1.0, 1.0), True)
    """
    return rgb("paper") if luminance(colour) < 0.4 else rgb("ink")


def luminance(colour: str) -> float:
    """Brightness of a colour in greyscale, from 0 to 1."""
    red, green, blue = rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def legend_above(drawing: Drawing, handles: Sequence[Any], labels: Sequence[str]) -> float:
    """Draw a legend above the figure in as many columns as fit; returns its height in inches."""
    if not labels:
        return 0.0
    width = drawing.get_figwidth()
    short = [wrap_text(label, int(width * POINTS / (LETTER * SMALL)) - 6) for label in labels]
    each = max(text_width(label) for label in short) + 0.36
    columns = max(min(int(width / each), len(short)), 1)
    drawing.legend(handles, short, loc="outside upper left", ncols=columns)
    return legend_height(short, columns)


def legend_height(labels: Sequence[str], columns: int) -> float:
    """Height of a legend in inches."""
    lines = max((label.count("\n") + 1 for label in labels), default=0)
    return 0.145 * lines * -(-len(labels) // columns) + 0.06
