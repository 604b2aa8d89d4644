# They have no doctests, and each adds its cases to one table, once.
collect_ignore = ["around_us.py", "captured.py", "machine.py", "program.py", "rig.py", "runner.py"]
