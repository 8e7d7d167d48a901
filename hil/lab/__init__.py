"""Lab: small virtual machines that run Linux's real RDMA, CXL and switch drivers."""
