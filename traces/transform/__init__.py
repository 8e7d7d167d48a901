"""Transformations of recorded traces and graphs: data-parallel, rescaled, anonymised."""
