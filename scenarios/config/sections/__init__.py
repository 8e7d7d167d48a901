"""Sections of a scenario, one file each; importing a file registers its section."""
