"""Fail unless the installed foretrace owns one top-level name and is the one imported here."""

import sys
from importlib import metadata
from pathlib import Path

import foretrace

owned = {path.parts[0] for path in metadata.files("foretrace") or ()} - {"..", "bin"}
strangers = {name for name in owned if name != "foretrace" and not name.endswith(".dist-info")}
if strangers:
    sys.exit(f"the wheel also installs {sorted(strangers)}; see package_dir in setup.cfg")
if not Path(foretrace.__file__).is_relative_to(sys.prefix):
    sys.exit(f"foretrace is imported from {foretrace.__file__}, not from the wheel")
