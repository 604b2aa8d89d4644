"""Is the fused version right, and is it faster? And would half precision do?"""

import torch
from attention import FusedAttention, case
from torch import Tensor

from lightning_gpuprof import ab_test

if __name__ == "__main__":
    module, tokens = case()
    fused = FusedAttention(module).eval()

    def half(inputs: Tensor) -> Tensor:
        with torch.autocast(inputs.device.type, torch.bfloat16):
            return fused(inputs)

    for name, optimized in (("fused", fused), ("fused, bfloat16", half)):
        with torch.inference_mode():
            result = ab_test(module, optimized, tokens, tolerance=1e-2, warmup=20, iterations=200)
        print(f"{name}: {result}")
        print(
            f"  {result.baseline.median_ms:.3f} ms to {result.optimized.median_ms:.3f} ms, "
            f"{result.speedup:.2f} x as fast ({result.speedup_low:.2f} to "
            f"{result.speedup_high:.2f}), largest difference {result.agreement.max_error:.2g}"
        )
