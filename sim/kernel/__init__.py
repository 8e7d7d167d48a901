"""How kernels are compiled and cached, and small kernels that every room may use."""
