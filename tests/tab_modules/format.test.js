import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { kernelName, shortKernel, shown } from "../../lightning_gpuprof/tab/static/format.js";

const CASES = JSON.parse(readFileSync(new URL("../data/format_cases.json", import.meta.url), "utf-8"));

for (const [unit, value, text] of CASES) {
  test(`${unit} ${JSON.stringify(value)} is shown as in Python: ${text}`, () => {
    assert.equal(shown(value, unit), text);
  });
}

test("a kernel's name is shown without its type and parameters", () => {
  assert.equal(kernelName("void at::native::(anonymous namespace)::add(float*, int)"), "at::native::add");
});

test("of a kernel's template parameters the one that distinguishes it stays", () => {
  const whole = "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>(cutlass::Params)";
  assert.equal(shortKernel(whole), "Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>");
  assert.equal(
    shortKernel("void at::native::vectorized_elementwise_kernel<4, float>(int)"),
    "vectorized_elementwise_kernel",
  );
});
