"""Fleet processes: failures, degradation, and hot spares."""
