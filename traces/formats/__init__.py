"""Files of traces, read and written: one format a file or a folder."""
