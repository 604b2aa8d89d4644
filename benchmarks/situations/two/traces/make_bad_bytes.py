"""Write bad_bytes.pt.trace.json: a kineto trace with bytes in it that are no UTF-8.

Reported in pytorch/kineto issue 80, "Chrome tracing json file fail to load because of unexpected
string encoding": one operator's name came out as stray bytes, and the whole file was refused.

right: the file is read (or refused by a sentence that names the encoding and where): 4 steps of
    5.0 ms, 40 kernels of 0.3 ms = 12.0 ms, all joined to their launches; the device is busy 60 %
    and idle 40 %; in every step the ten launches come 0.5 ms apart and take 8 us each, so the host
    is what the device waits for. A damaged name must not lose any event
"""

import json
from pathlib import Path

STEPS, KERNELS, STEP_US, KERNEL_US = 4, 10, 5000.0, 300.0
BAD = b"\xc3\x28\xf0\x9f\xff"


def event(category, name, start, length, pid, tid, **args):
    row = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid}
    return {**row, "ts": start, "dur": length, "args": args}


def main():
    events = [
        {"ph": "M", "name": "process_name", "pid": 41, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
    ]
    link, origin = 0, 7_000_000_000.0
    for step in range(STEPS):
        start = origin + step * STEP_US
        events.append(event("user_annotation", f"ProfilerStep#{step + 5}", start, STEP_US, 41, 41))
        for kernel in range(KERNELS):
            link += 1
            at = start + kernel * 500.0 + 20.0
            name = "BADNAME" if (step, kernel) == (1, 3) else "aten::addmm"
            events.append(event("cpu_op", name, at, 30.0, 41, 41, **{"External id": link}))
            launch = {"External id": link, "correlation": link}
            events.append(event("cuda_runtime", "cudaLaunchKernel", at + 10, 8.0, 41, 41, **launch))
            on = {**launch, "device": 0, "context": 1, "stream": 7, "grid": [64, 4, 1]}
            on["block"] = [256, 1, 1]
            name = "ampere_sgemm_128x64_tn"
            events.append(event("kernel", name, at + 25, KERNEL_US, 0, 7, **on))
    properties = [{"id": 0, "name": "NVIDIA A100-SXM4-40GB", "numSms": 108, "computeMajor": 8}]
    document = {"schemaVersion": 1, "deviceProperties": properties, "traceEvents": events}
    text = json.dumps(document).encode().replace(b"BADNAME", b"aten::" + BAD)
    Path("bad_bytes.pt.trace.json").write_bytes(text)


if __name__ == "__main__":
    main()
