"""The accuracy page: how wrong the model is, what that does to the answer, and how certain that is.

Input is the ``accuracy.json`` of a check; output is one self-contained HTML file.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..html import page_html as html
from ..section import names_on_page, shown_sections
from .check_summary import CheckShown
from .verdict import Checked


def accuracy_page(checked: Checked, command: str = "", sections: Sequence[str] = ()) -> str:
    """HTML of the accuracy page."""
    return html(
        shown_sections(
            "accuracy", CheckShown(checked, command), names_on_page("accuracy", sections)
        ),
        checked,
        title=checked["title"] or f"Accuracy of {checked['name']}",
        question=checked["question"],
        data_id="accuracy",
    )
