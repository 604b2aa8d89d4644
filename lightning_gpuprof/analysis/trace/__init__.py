"""The tables of one Timeline; docs/reference/json-analyze.md describes every field."""
