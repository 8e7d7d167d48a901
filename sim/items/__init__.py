"""Streams of many small things (packets, queries, requests) through pools, by a compiled policy."""
