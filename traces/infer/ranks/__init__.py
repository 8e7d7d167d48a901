"""One rank: its launches, waits and collectives, assembled to a graph."""
