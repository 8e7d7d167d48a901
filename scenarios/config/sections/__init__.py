"""The sections of a scenario, one file each; importing one registers it."""
