"""From text to what it says: read, laid over, checked, filled; every problem at its place."""
