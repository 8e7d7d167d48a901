"""Lab: small virtual machines that run the real RDMA, CXL and switch drivers of Linux."""
