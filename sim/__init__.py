"""What must be done, on what, and when: graphs, systems, the two engines, results."""
