"""Hardware facts, one file a part: ``<name>.yaml``, every value with its source."""
