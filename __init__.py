"""foretrace: profile operations once; simulate any machine; learn how far to trust the answer."""
