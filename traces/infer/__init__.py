"""Dependencies of a trace, inferred: from recorded events to a graph of ops."""
