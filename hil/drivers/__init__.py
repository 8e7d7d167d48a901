"""What is asked: a device each, found out by doing."""
