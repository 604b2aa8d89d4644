"""Pure functions: records or a Timeline in, frozen results out."""
