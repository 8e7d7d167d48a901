"""Bundled scenarios, named ``foretrace:NAME``; data, no code."""
