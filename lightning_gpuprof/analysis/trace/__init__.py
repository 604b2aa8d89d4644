"""The tables of one Timeline; docs/json_analyze.md describes every field."""
