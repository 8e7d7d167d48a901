"""Folders of runs, sweeps and checks, and digests of what can change an answer."""
