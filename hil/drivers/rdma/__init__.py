"""RDMA drivers: pyverbs, and the perftest programs."""
