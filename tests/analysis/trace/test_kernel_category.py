import pytest

from lightning_gpuprof.analysis.trace.kernel_category import (
    CATEGORIES,
    categorize,
    uses_tensor_cores,
)

NAMES = {
    "gemm": [
        "volta_sgemm_64x64_nt",
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4>(Params)",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas",
        "Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT16x16x128_MI16x16x1_SN",
        "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT",
        "triton_tem_fused_addmm_relu_3",
        "void gemv2T_kernel_val<int, int, float, float>",
    ],
    "conv": [
        "volta_scudnn_128x64_relu_interior_nn_v1",
        "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int)",
        "implicit_convolve_sgemm<float, float, 1024>",
        "miopenSp3AsmConv_v30_3_1_gfx9_fp16_stride1",
        "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nchw",
        "_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11thread",
        "cask_cudnn::computeWgradSplitKOffsetsKernel(cask_cudnn::ComputeSplitKOffsetsParams)",
    ],
    "attention": [
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, cutlass::bfloat16_t>>",
        "attn_fwd",
        "bwd_kernel_fuse",
        "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64",
    ],
    "normalisation": [
        "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)",
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>",
        "triton_per_fused_native_layer_norm_0",
    ],
    "elementwise": [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
        "triton_poi_fused_gelu_1",
        "loop_convert_fusion.kd",
        "cupy_true_divide__float64_float64_float64",
    ],
    "reduction": [
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>",
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float>",
        "triton_red_fused_mean_2",
        "void at::native::(anonymous namespace)::adaptive_average_pool<float>(float const*)",
        "void at::native::(anonymous namespace)::max_pool_backward_nchw<float, float>(int)",
    ],
    "communication": [
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
        "void vllm::cross_device_reduce_1stage<__half, 2>",
    ],
    "copy": [
        "void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda(at::TensorIterator&)>",
        "__amd_rocclr_copyBuffer",
        "batched_transpose_32x32_half",
        "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(float const*)",
        "void at::native::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*)",
    ],
    "optimizer": [
        "void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor>",
        "split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per_row_1<float>",
    ],
    "other": [
        "void split_embedding_codegen_forward_unweighted_kernel<float>(fbgemm_gpu::Vec4)",
        "my_own_kernel",
    ],
}


@pytest.mark.parametrize(
    ("category", "name"), [(c, name) for c, names in NAMES.items() for name in names]
)
def test_a_kernel_s_kind_is_told_by_its_name(category, name):
    assert categorize(name) == category


def test_every_category_has_an_example():
    assert set(NAMES) == set(CATEGORIES)


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_nn", True),
        ("Cijk_Alik_Bljk_B_BS_MT16x16x128_MI16x16x1_SN", True),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", True),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>", True),
        ("attn_fwd", True),
        ("fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention)", True),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm70(PyTorchMemEffAttention)", False),
        ("igemm_bwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x64x32_wt32x32x8", True),
        ("igemm_fwd_gtc_nhwc_fp32_bx0_ex1", False),
        (
            "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle",
            True,
        ),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_ffma_aligna4", False),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x64_stage3_tensor16x8x8", True),
        ("volta_sgemm_64x64_nt", False),
        ("ampere_sgemm_128x64_nn", False),
        ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_bA32_bB16_bC32_t128x8x512u2_s6_et128x8", True),
        ("fmhaSm100aKernel_QkvBfloat16OBfloat16H64PagedKvCausalP64VarSeqQ8Kv128Persistent", True),
        ("void at::native::my_matmul<float>(float*)", None),
        ("my_attention_kernel", None),
        ("void gemv2T_kernel_val<int, int, float, float, float, 128, 16>", False),
        ("Cijk_Ailk_Bljk_SB_MT64x64x16_SE_K1", False),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>", False),
    ],
)
def test_matrix_units_are_told_by_a_kernel_s_name(name, used):
    assert uses_tensor_cores(name) is used
