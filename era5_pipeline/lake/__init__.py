"""The same months as an Apache Iceberg table, which other engines read: its catalog, its files, their upkeep."""
