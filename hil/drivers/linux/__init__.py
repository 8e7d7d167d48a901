"""Linux facilities that several drivers use: namespaces, clocks, timers, pages, threads."""
