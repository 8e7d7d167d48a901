"""Hardware facts, one file per part: ``<name>.yaml``; every value has a source."""
