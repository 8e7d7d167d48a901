"""All-reduce of gloo over TCP, message by message, as a backend of the fabric."""
