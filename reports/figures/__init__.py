"""Figures for pages: blocks in, HTML with inline SVG out."""
