"""The kind of work that a kernel does, and a short form of its name."""

import re
from functools import lru_cache

MATRIX_CATEGORIES = ("gemm", "conv", "attention")
"""Work that matrix units do, where a device has them."""
CATEGORIES = (
    *MATRIX_CATEGORIES,
    "normalisation",
    "elementwise",
    "reduction",
    "communication",
    "copy",
    "optimizer",
    "other",
)

# Compiled by `re` when first used. The first pattern that matches decides, so the more specific
# words stand first: a fused attention kernel holds "gemm" in its template arguments, an optimizer's
# kernel "elementwise".
_PATTERNS = {
    r"nccl|rccl|hccl|hcom_|msccl|nvshmem|rocshmem|all_?reduce|all_?gather|reduce_?scatter"
    r"|cross_device_reduce|sendrecv|broadcast_kernel": "communication",
    r"flash_?(?:fwd|bwd|attn|attention)|fmha|attn_fwd|attn_bwd|attention|mha_?(?:fwd|bwd)"
    r"|sdpa|paged_?kv|bwd_kernel_(?:dk|dq|fuse)|Fmha(?:Fwd|Bwd)": "attention",
    r"multi_tensor_apply|adam|lamb_|sgd_|FusedOptimizer|split_.*update|adagrad"
    r"|rmsprop": "optimizer",
    # Changes of a tensor's layout around a convolution.
    r"nchwToNhwc|nhwcToNchw": "copy",
    r"convolve|[Cc]onv[123]d|conv_|_conv(?!ert)|conv[A-Z]|scudnn"
    r"|cudnn.*(?:dgrad|wgrad|fprop|fft2d)|fft2d.*cudnn|[Ii]mplicit_?[Gg]emm|dgrad|wgrad|fprop"
    r"|winograd|depthwise|miopen(?:Sp3)?(?:Asm)?[Cc]onv|igemm|im2col|col2im|Im2d2Col"
    r"|compute\w*OffsetsKernel": "conv",
    r"batch_?norm|layer_?norm|group_?norm|rms_?norm|instance_?norm|bn_(?:fw|bw)|Norm|GammaBeta"
    r"|RowwiseMoments": "normalisation",
    r"(?<!fb)gemm|Cijk_|cutlass.*Kernel|cublas|gemv|dot_kernel|splitK|xmma|wgmma|nvjet"
    r"|(?<![a-z])mm_|_mm(?![a-z])|addmm|bmm|matmul|rocblas|tensile|MatMul": "gemm",
    r"^Memcpy|^Memset|[Cc]opyBuffer|copy_?kernel|CatArray|[Ff]illBuffer|batched_transpose"
    r"|^wrapped_transpose": "copy",
    r"[Rr]educe|softmax|SoftMax|argmax|argmin|cumsum|\bscan|scan_kernel|Scan|\bsum|mean_"
    r"|logsumexp|[Nn]ll_?[Ll]oss|NLLCriterion|_pool(?:_|<|\b)|Pool(?:ing|For|Back)"
    r"|triton_(?:red|per)_": "reduction",
    r"[Ee]lementwise|pointwise|Functor|gelu|relu|silu|dropout|triton_poi|fill_|threshold"
    r"|where_kernel|masked_fill|clamp|scalePackedTensor|TensorOpWith|OpTensor|OpKernel"
    r"|upsample|^cupy_\w+__|^loop_\w*fusion|^wrapped_": "elementwise",
}
_TENSOR_CORE = (
    r"tensorop|_s?(?:1688|16816|884|8816|16832|161616|16864)|h884|h1688|h16816|i8816|i16832"
    r"|s1688|s16816|s884|bf16_?s|wgmma|xmma|nvjet|hmma|imma|_MI\d+x\d+x\d+|MFMA|mfma"
    r"|tcgen05|umma|TensorOpMultiplicand|MmaTensorOp"
    # TensorRT-LLM's attention and products since Hopper; types that only matrix units multiply.
    r"|fmhaSm\d+|[Ee]4m3|[Ee]5m2|[Ee]2m1|(?<![a-z])fp8|nvfp4|mxfp\d"
    # AMD's names for matrix instructions: xdlops, of which MIOpen's `gtcx` is made, and WMMA.
    r"|xdl|gtcx|wmma"
    # Fused attention is written for matrix units alone, but for CUTLASS's fp32 before Ampere.
    r"|[Ff]lash|attn_(?:fwd|bwd)|bwd_kernel_(?:dk|dq|fuse)|Fmha(?:Fwd|Bwd)"
    r"|fmha_cutlass\w*_(?:bf16|f16|\w+_sm(?:8|9|1)\d)"
)
_VECTOR_UNITS = (
    # cuBLAS's fp32 kernels without TF32 are also called `xmma`, but have `ffma` in their name.
    r"_ffma_|simt|(?:maxwell|pascal|volta|turing|ampere|ada|hopper|sm\d+)_(?:s|d|c|z)gemm"
    r"|_(?:s|d|c|z)gemm_\d|gemv|dot_kernel|split_?[Kk]_?[Rr]educe|scudnn|_sgemm\b|fft2d|winograd"
    r"|depthwise|im2col|col2im|Im2d2Col|compute\w*OffsetsKernel|igemm_\w+_gtc_"
    r"|fmha_cutlass\w*_f32_\w+_sm[567]\d|Cijk_(?!.*_MI\d)"
)
"""Names of products and convolutions that do without matrix units. Tensile (`Cijk_`) names the
matrix instruction where it uses one."""


@lru_cache(maxsize=1 << 14)
def categorize(name: str) -> str:
    """Return a kernel's category, one of `CATEGORIES`.

    >>> categorize("ampere_sgemm_128x64_nn"), categorize("ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    ('gemm', 'communication')
    >>> categorize("void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>")
    'elementwise'
    """
    for pattern, category in _PATTERNS.items():
        if re.search(pattern, name):
            return category
    return "other"


def uses_tensor_cores(name: str) -> bool | None:
    """Return whether a GEMM, convolution or attention kernel runs on matrix units, by its name.

    None if its name is not known to be that of either kind.

    >>> uses_tensor_cores("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_nn")
    True
    >>> uses_tensor_cores("ampere_sgemm_128x64_nn")
    False
    >>> uses_tensor_cores("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_ffma_aligna4")
    False
    >>> uses_tensor_cores("my_matmul_kernel") is None
    True
    """
    if re.search(_VECTOR_UNITS, name):
        return False
    return True if re.search(_TENSOR_CORE, name) else None


def kernel_name(name: str) -> str:
    """Return a kernel's name without the type before it and the parameters behind it.

    >>> kernel_name("void at::native::(anonymous namespace)::pooled<4, float>(int, char*)")
    'at::native::pooled<4, float>'
    >>> kernel_name("std::enable_if<!(false), void>::type gemv::kernel<int>(gemv::Params<int>)")
    'gemv::kernel<int>'
    >>> kernel_name("ampere_sgemm_128x64_tn")
    'ampere_sgemm_128x64_tn'
    """
    name = name.replace("(anonymous namespace)::", "")
    depth = begin = 0
    for at, sign in enumerate(name):
        if sign == "<":
            depth += 1
        elif sign == ">":
            depth -= depth > 0
        elif sign == " " and not depth:
            begin = at + 1
        elif sign == "(" and not depth:
            return name[begin:at] or name
    return name


def kernel_family(name: str) -> str:
    """Return a kernel's name without its template and namespaces.

    >>> kernel_family("void (anonymous namespace)::add_rows<float, 4>(long const*, float*)")
    'add_rows'
    >>> kernel_family("std::enable_if<!(false), void>::type gemv::kernel<int>(gemv::Params<int>)")
    'kernel'
    """
    plain = kernel_name(name)
    while plain != (outer := re.sub(r"<[^<>]*>", "", plain)):
        plain = outer
    return re.split(r"::|\s", plain.strip())[-1] or name
