"""Network models: links, NICs, switches, and the fabric backend for sends and collectives."""
