"""Workers that run the points of a sweep: processes of this machine, or a Dask cluster.

What a point says depends on nothing but the point, so the choice changes no byte of the answer.
"""
