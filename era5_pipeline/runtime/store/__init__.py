"""The durable place of files that every executor sees: a folder or an S3 bucket, and what of it is on local disk."""
