"""How a run is started: forked from a process that has imported everything, or as a container."""
