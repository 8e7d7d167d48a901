"""Figures: data in, HTML with inline SVG out."""
