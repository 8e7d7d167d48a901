"""Explanations of names, of collective algorithms, and of differences between runs."""
