"""Plug-ins that ship: found by their entry points, as anybody's are; nothing else names them."""
