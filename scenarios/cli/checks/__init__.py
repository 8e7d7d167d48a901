"""The checks of a scenario before it runs."""
