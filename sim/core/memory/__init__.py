"""Memory of the compiled engine: state layout, growth, and lists and queues inside arrays."""
