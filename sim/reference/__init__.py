"""The engine, written plainly in SimPy: what a run means."""
