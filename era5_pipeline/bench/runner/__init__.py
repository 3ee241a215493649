"""Running cells: their order, their repeats, what is kept of them on disk, and servers and databases for them alone."""
