"""From recordings to catalog entries, judged on what was held out."""
