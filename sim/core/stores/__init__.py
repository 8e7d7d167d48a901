"""Stores in the compiled engine: named, sized entries in arrays, and kernels over them."""
