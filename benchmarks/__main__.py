"""Run the benchmarks: `python -m benchmarks run SUITE...` and `report`, which are `era5 bench run` and `report`."""

import sys

from era5_pipeline.cli import main

if __name__ == "__main__":
    main(["bench", *sys.argv[1:]])
