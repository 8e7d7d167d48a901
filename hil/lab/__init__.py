"""A small virtual machine in which the real RDMA, CXL and switch drivers of Linux answer."""
