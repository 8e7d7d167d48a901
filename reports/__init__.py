"""Reports: result pages as single HTML files, tables, figures and exported timelines."""
