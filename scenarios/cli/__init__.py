"""Commands, one file each; each registers itself with the application."""
