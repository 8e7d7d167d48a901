"""Backend for gloo's all-reduce over TCP, simulated message by message."""
