"""What the traces of a job's ranks say together: who waits for whom, and what the wire takes."""
