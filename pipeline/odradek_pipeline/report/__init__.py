"""The report of the audits below a folder."""
