"""Drivers of RDMA: pyverbs, and the programs of perftest."""
