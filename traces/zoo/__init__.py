"""Example models to profile: plain training scripts, run with ``python -m``; they need torch."""
