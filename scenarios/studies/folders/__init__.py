"""Folders that runs, sweeps and checks leave, and digests of what can change an answer."""
