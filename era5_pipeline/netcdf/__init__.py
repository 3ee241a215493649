"""Read ERA5 files of every layout: recognise the file type, unpack it, find its variables and read their values.

`recognise` detects the file type from the first bytes, `archive` unpacks ZIP members and converts point series,
`contents` and `axes` find the variables and their coordinates, `field_reader` reads values. `refusals` and `heaps`
refuse what is damaged, or larger than ERA5 can be, before it is read. `month_cut` cuts months out of longer files.
`grib` reads fields of GRIB, and `raw_chunks` stored chunks of netCDF without its library.
`cds_files` writes files like those of the Climate Data Store, `cf_files` gridded variables by the CF conventions.

An oddity belongs where it shows: another calendar, or another name or unit of an axis, to `axes`, of a variable, to
`contents`; another kind of file to `recognise`; another way to store values to `field_reader`, in GRIB to `grib`; what
must be refused, to `refusals`.
"""
