"""Explanations: of a name, of a choice, of a difference between runs."""
