"""Checks of a scenario before it runs."""
