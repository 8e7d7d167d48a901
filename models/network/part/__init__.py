"""Parts of a network: links, NICs, switches, PCIe, machines."""
