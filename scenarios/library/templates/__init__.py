"""What `foretrace init` writes."""
