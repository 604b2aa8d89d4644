"""Code that runs only under `lightning-gpuprof inspect`, in a process of its own."""
