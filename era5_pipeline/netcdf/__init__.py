"""Reading ERA5 files of every layout: what kind a file is, what it holds, and what a month has of it.

`recognise` looks at first bytes, `inspect` finds our variables and their axes by meaning, `archive` gives the members
of ZIPs paths of their own, `inventory` gathers what a month's files hold together.
"""
