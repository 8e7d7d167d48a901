"""Graph of one rank, assembled from its launches, waits and collectives."""
