"""Viewer for runs with any number of ops: a pyramid of tiles, and a small local server."""
