"""Plug-ins shipped with foretrace; like those of other packages, they are found by entry points."""
