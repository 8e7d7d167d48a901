"""Runs of any number of ops in the browser: a pyramid of tiles, and a small local server."""
