"""Reference engine, written plainly in SimPy: it defines what a run means."""
