"""Links, adapters, switches, and the fabric that does sends and collectives on them."""
