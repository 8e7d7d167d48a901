"""The accuracy page: how wrong the model is, what that does to the answer, and how sure that is.

Data in (``accuracy.json`` of a check), one self-contained HTML file out.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..html import page_html as html
from ..section import names_on_page, shown_sections
from .check_summary import CheckShown
from .verdict import Checked


def accuracy_page(checked: Checked, command: str = "", sections: Sequence[str] = ()) -> str:
    """The page as text.

    Parameters
    ----------
    checked, command : as :class:`~.check_summary.CheckShown` has them
    sections : what to show, in this order; all there are unless said
    """
    return html(
        shown_sections(
            "accuracy", CheckShown(checked, command), names_on_page("accuracy", sections)
        ),
        checked,
        title=checked["title"] or f"Accuracy of {checked['name']}",
        question=checked["question"],
        data_id="accuracy",
    )
