"""A test server with the protocol of the Climate Data Store, over real HTTP.

It can be made to fail as the service does, and serves generated weather in the store's own layout. For tests, and for
`make demo-cds`.
"""

from era5_pipeline_tests.cds_store.faults import Faults
from era5_pipeline_tests.cds_store.server import CdsServer

__all__ = ["CdsServer", "Faults"]
