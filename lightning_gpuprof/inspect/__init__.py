"""The inspection of a few steps in a child process: runs only under `lightning-gpuprof inspect`."""
