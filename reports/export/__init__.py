"""Export of runs to other formats: Parquet, Perfetto, Chrome trace, PDF."""
