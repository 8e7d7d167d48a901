"""Sections of the page of a run, one or a few related ones per file."""
