"""The other side of a driver: the process it works in, and what is spoken with it."""
