"""The only places that name private parts of torch or Lightning, with versions and fallback."""
