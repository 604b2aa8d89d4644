"""How long does the attention in use take? Compilation and warm-up are kept apart."""

import torch
from attention import case

from lightning_gpuprof import benchmark_latency

if __name__ == "__main__":
    module, tokens = case()
    with torch.inference_mode():
        latency = benchmark_latency(module, tokens, warmup=20, iterations=200)
    print(f"clock: {latency.clock}; the first call took {latency.first_call_ms:.2f} ms")
    for name in ("mean", "median", "std", "min", "max", "p95"):
        print(f"{name:>7} {getattr(latency, name + '_ms'):7.3f} ms")
