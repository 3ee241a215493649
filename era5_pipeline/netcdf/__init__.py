"""Read ERA5 files of every layout: recognise the file type, unpack it, find its variables and read their values.

`recognise` tells the file type by the first bytes, `archive` unpacks ZIP members, `point_csv` converts point series,
`contents` and `axes` find the variables and their coordinates, `field_reader` reads values. `classic`, `declared` and
`heaps` refuse what is damaged, or larger than ERA5 can be, before it is read. `cds_layout` and `cds_netcdf`
write files like those of the Climate Data Store, `point_netcdf` hours of one point.
"""
