"""Figures for papers: the figures of pages, drawn with matplotlib."""
