"""Models to profile: plain training scripts, each run as ``python -m``; they need torch."""
