"""The rules, one per file; the module of a rule is its id with underscores."""
