"""Read ERA5 files of every layout: recognise the file type, unpack it, find its variables and read their values.

`recognise` detects the file type from the first bytes, `archive` unpacks ZIP members and converts point series,
`contents` and `axes` find the variables and their coordinates, `field_reader` reads values. `refusals` and `heaps`
refuse what is damaged, or larger than ERA5 can be, before it is read. `month_cut` cuts months out of longer files.
`cds_files` writes files like those of the Climate Data Store, `cf_files` gridded variables by the CF conventions.
"""
