"""Files of rocmProfileData in the schemas and layouts of its versions: made up."""

from lightning_gpuprof.traces import open_timeline
from lightning_gpuprof.traces.timeline import CATEGORIES

PID, TID = 41, 42
STRINGS = ["", "gemm", "KernelExecution", "hipLaunchKernel", "aten::mm", "step", "hip", "torch"]
STRINGS += ["function", "user_scope", "hipMemcpyAsync", "CopyHostToDevice"]
ID = {text: number for number, text in enumerate(STRINGS, 1)}


def test_the_third_schema_tells_operators_ranges_and_calls_apart(write_database):
    """Calls have a domain and a category, and arguments a table of their own."""
    calls = [
        (1, 1000, 9000, "step", "torch", "user_scope"),
        (2, 1500, 4000, "aten::mm", "torch", "function"),
        (3, 2000, 2100, "hipLaunchKernel", "hip", ""),
        (4, 5000, 5200, "hipMemcpyAsync", "hip", ""),
    ]
    path = write_database(
        rocpd_string=("id, string", list(enumerate(STRINGS, 1))),
        rocpd_ustring=("id, string", [(1, '{"seq": 3}')]),
        rocpd_api=(
            'id, pid, tid, start, "end", apiName_id, args_id, domain_id, category_id',
            [(n, PID, TID, s, e, ID[a], 1, ID[d], ID[c]) for n, s, e, a, d, c in calls],
        ),
        rocpd_op=(
            'id, gpuId, queueId, start, "end", description_id, opType_id',
            [
                (1, 2, 7, 3000, 3800, ID["gemm"], ID["KernelExecution"]),
                (2, 2, 7, 5300, 6000, ID[""], ID["CopyHostToDevice"]),
            ],
        ),
        rocpd_api_ops=("id, api_id, op_id", [(1, 3, 1), (2, 4, 2)]),
        rocpd_copyapi=("api_ptr_id, stream, size", [(4, "0x0", 4096)]),
    )

    timeline = open_timeline(path)
    host = {
        timeline.names[name]: CATEGORIES[category]
        for name, category in zip(timeline.host.name, timeline.host.category, strict=True)
    }
    assert host == {
        "step": "user_annotation",
        "aten::mm": "cpu_op",
        "hipLaunchKernel": "cuda_runtime",
        "hipMemcpyAsync": "cuda_runtime",
    }
    assert [timeline.names[i] for i in timeline.device.name] == ["gemm", "Memcpy HtoD"]
    assert timeline.device.correlation.tolist() == [3, 4]
    assert timeline.device.num_bytes.tolist() == [-1, 4096]
