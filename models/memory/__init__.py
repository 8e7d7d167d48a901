"""HBM, DRAM and CXL memory, and the copies between them."""
