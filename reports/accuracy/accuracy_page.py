"""The accuracy page: how wrong the model is, what that does to the answer, and how certain that is.

Input is the ``accuracy.json`` of a check; output is one self-contained HTML file.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..html import page_html as html
from ..section import Failed, names_on_page, shown_sections
from .check_summary import CheckShown
from .verdict import Checked


def accuracy_page(
    checked: Checked,
    command: str = "",
    sections: Sequence[str] = (),
    failed: Failed | None = None,
) -> str:
    """HTML of the accuracy page.

    Parameters
    ----------
    failed : list to which sections that cannot be made are added; None to raise their error
    """
    wanted = names_on_page("accuracy", sections)
    return html(
        shown_sections("accuracy", CheckShown(checked, command), wanted, failed),
        checked,
        title=checked["title"] or f"Accuracy of {checked['name']}",
        question=checked["question"],
        data_id="accuracy",
        failed=failed,
    )
