"""How `make docs` builds these pages."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # generated.py
project = "foretrace"
html_title = "foretrace"
html_theme = "furo"
html_show_copyright = False
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "generated"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["examples"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
