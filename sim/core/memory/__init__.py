"""Memory of the core: layout of its state, growth, lists and queues over arrays."""
