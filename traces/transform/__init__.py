"""Transformations of traces and graphs: data-parallel, tensor-parallel, resized, anonymised."""
