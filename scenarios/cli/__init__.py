"""Commands of the command line, one file each; each registers itself."""
