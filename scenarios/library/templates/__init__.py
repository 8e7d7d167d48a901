"""Scenario templates that `foretrace init` copies into a new folder."""
