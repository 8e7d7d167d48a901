"""Workers that run the points of a sweep: local processes, or a Dask cluster.

A result depends only on its point, so the choice of workers does not change the answer.
"""
