"""Parts of Linux that drivers share: namespaces, clocks, timers, pages, threads."""
