"""Models of HBM, DRAM and CXL memory, and of copies between them."""
