import re
from urllib.parse import urlparse

import pytest

from lightning_gpuprof.hardware.lookup import find_peaks, peak_rows

VENDOR_HOSTS = ("nvidia.com", "amd.com", "awsstatic.com")


@pytest.mark.parametrize(
    ("reported", "product", "dtype", "flop_per_s", "bytes_per_s"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM", "bf16", 989.4e12, 3.35e12),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe", "bf16", 756.5e12, 2.0e12),
        ("NVIDIA H100 NVL", "NVIDIA H100 NVL", "bf16", 835.5e12, 3.9e12),
        ("NVIDIA H200", "NVIDIA H200 SXM", "fp8", 1979e12, 4.8e12),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 SXM 80GB", "bf16", 312e12, 2.039e12),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 PCIe 80GB", "tf32", 156e12, 1.935e12),
        ("NVIDIA L4", "NVIDIA L4", "bf16", 121e12, 300e9),
        ("NVIDIA L40", "NVIDIA L40", "bf16", 181.05e12, 864e9),
        ("NVIDIA L40S", "NVIDIA L40S", "bf16", 362.05e12, 864e9),
        ("NVIDIA A10", "NVIDIA A10", "bf16", 125e12, 600e9),
        ("NVIDIA A10G", "NVIDIA A10G", "bf16", 70e12, 600e9),
        ("Tesla T4", "NVIDIA T4", "fp16", 65e12, 320e9),
        ("Tesla V100-SXM2-32GB", "NVIDIA V100 SXM2", "fp16", 125e12, 900e9),
        ("NVIDIA [Tesla V100-SXM2-16GB]", "NVIDIA V100 SXM2", "fp16", 125e12, 900e9),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090", "bf16", 165.2e12, 1.008e12),
        ("NVIDIA B200", "NVIDIA B200", "bf16", 2250e12, 8e12),
        ("AMD Instinct MI300X VF", "AMD Instinct MI300X", "bf16", 1307.4e12, 5.3e12),
        ("AMD Instinct MI210", "AMD Instinct MI210", "fp16", 181e12, 1.6384e12),
        ("AMD Instinct MI250X", "AMD Instinct MI250X (one GCD)", "fp16", 191.5e12, 1.6384e12),
    ],
)
def test_a_reported_name_gives_the_dense_datasheet_figures(
    reported, product, dtype, flop_per_s, bytes_per_s
):
    peaks = find_peaks(reported).peaks

    assert peaks.name == product
    assert peaks.flop_per_s[dtype] == flop_per_s
    assert peaks.memory_bytes_per_s == bytes_per_s


@pytest.mark.parametrize(
    "name",
    [
        None,
        "",
        "AMD Radeon Graphics",
        "NVIDIA H100",
        "NVIDIA GeForce RTX 4080 SUPER",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "Tesla V100-DGXS-32GB",
        "NVIDIA L400",
        "MockGPU",
    ],
)
def test_an_unknown_name_gives_no_row_and_says_why(name):
    found = find_peaks(name)

    assert found.peaks is None
    assert found.reason.endswith(".")


def test_products_that_share_a_name_give_only_what_they_agree_on():
    found = find_peaks("NVIDIA A100-PG509-200")

    assert found.peaks.flop_per_s["bf16"] == 312e12
    assert found.peaks.memory_bytes_per_s is None
    assert "bandwidth is not known" in found.reason


def test_the_reported_memory_decides_between_products_that_share_a_name():
    found = find_peaks("NVIDIA A100-PG509-200", memory_bytes=42_505_273_344)

    assert found.peaks.memory_bytes_per_s == 1.555e12
    assert found.reason == ""


def test_a_partition_of_a_device_gets_no_peaks():
    found = find_peaks("AMD Instinct MI300X", memory_bytes=206_141_652_992, units=38)

    assert found.peaks is None
    assert "partition" in found.reason
    assert find_peaks("NVIDIA GeForce RTX 3080", memory_bytes=12 * 2**30).peaks is None


def test_devices_of_real_traces_fit_their_rows():
    for name, memory_bytes, units in [
        ("AMD Instinct MI300X VF", 205_571_227_648, 304),
        ("AMD Instinct MI210", 68_702_699_520, 104),
        ("NVIDIA H100 80GB HBM3", 85_018_279_936, 132),
        ("NVIDIA A100-SXM4-80GB", 84_990_623_744, 108),
    ]:
        assert find_peaks(name, memory_bytes=memory_bytes, units=units).peaks is not None


@pytest.mark.parametrize("peaks", [row for row, _ in peak_rows()], ids=lambda peaks: peaks.name)
def test_every_row_is_sourced_and_consistent(peaks):
    host = urlparse(peaks.url).hostname
    rates = peaks.flop_per_s

    assert host.endswith(VENDOR_HOSTS)
    assert re.match("https://", peaks.url)
    assert set(rates) <= {"fp32", "tf32", "fp16", "bf16", "fp8", "int8"}
    assert 1e11 < peaks.memory_bytes_per_s < 2e13
    ordered = [rates[d] for d in ("fp32", "tf32", "fp16", "fp8") if d in rates]
    assert ordered == sorted(ordered)
    if "fp8" in rates:
        # Dense on every product, so fp8 is twice fp16: a sparse figure would stand out.
        assert rates["fp8"] / rates["fp16"] == pytest.approx(2, rel=0.02)


# Units of the product, dense fp16 operations per unit and clock with fp32 accumulation, and the
# boost clock in GHz, from the vendors' architecture papers: a rate that is the sparse one, the one
# with fp16 accumulation or another product's stands out by a factor.
CLOCKS = {
    "NVIDIA P100 PCIe 16GB": (56, 256, 1.303),
    "NVIDIA P100 SXM2": (56, 256, 1.480),
    "NVIDIA V100 PCIe": (80, 1024, 1.380),
    "NVIDIA V100 SXM2": (80, 1024, 1.530),
    "NVIDIA V100S PCIe": (80, 1024, 1.597),
    "NVIDIA T4": (40, 1024, 1.590),
    "NVIDIA TITAN RTX": (72, 1024, 1.770),
    "NVIDIA Quadro RTX 6000": (72, 1024, 1.770),
    "NVIDIA A10": (72, 1024, 1.695),
    "NVIDIA A30": (56, 2048, 1.440),
    "NVIDIA A40": (84, 1024, 1.740),
    "NVIDIA A100 PCIe 40GB": (108, 2048, 1.410),
    "NVIDIA A100 SXM 40GB": (108, 2048, 1.410),
    "NVIDIA A100 PCIe 80GB": (108, 2048, 1.410),
    "NVIDIA A100 SXM 80GB": (108, 2048, 1.410),
    "NVIDIA GeForce RTX 3070": (46, 512, 1.725),
    "NVIDIA GeForce RTX 3080 10GB": (68, 512, 1.710),
    "NVIDIA GeForce RTX 3090": (82, 512, 1.695),
    "NVIDIA RTX A6000": (84, 1024, 1.800),
    "NVIDIA L4": (58, 1024, 2.040),
    "NVIDIA L40S": (142, 1024, 2.490),
    "NVIDIA GeForce RTX 4080": (76, 512, 2.505),
    "NVIDIA GeForce RTX 4090": (128, 512, 2.520),
    "NVIDIA RTX 6000 Ada Generation": (142, 1024, 2.505),
    "NVIDIA H100 SXM": (132, 4096, 1.830),
    "NVIDIA H100 PCIe": (114, 4096, 1.620),
    "NVIDIA H100 NVL": (132, 4096, 1.545),
    "NVIDIA B200": (148, 8192, 1.855),
    "NVIDIA GeForce RTX 5080": (84, 512, 2.617),
    "NVIDIA GeForce RTX 5090": (170, 512, 2.407),
    "AMD Instinct MI100": (120, 1024, 1.502),
    "AMD Instinct MI210": (104, 1024, 1.700),
    "AMD Instinct MI250 (one GCD)": (104, 1024, 1.700),
    "AMD Instinct MI250X (one GCD)": (110, 1024, 1.700),
    "AMD Instinct MI300A": (228, 2048, 2.100),
    "AMD Instinct MI300X": (304, 2048, 2.100),
    "AMD Instinct MI325X": (304, 2048, 2.100),
    "AMD Instinct MI350X": (256, 4096, 2.200),
    "AMD Instinct MI355X": (256, 4096, 2.400),
}


@pytest.mark.parametrize("peaks", [row for row, _ in peak_rows()], ids=lambda peaks: peaks.name)
def test_a_row_that_says_so_follows_from_units_operations_and_clock(peaks):
    assert set(peaks.checked) <= {"vendor", "copy", "clock"}
    assert ("clock" in peaks.checked) == (peaks.name in CLOCKS)
    if peaks.name in CLOCKS:
        units, per_clock, ghz = CLOCKS[peaks.name]
        assert peaks.flop_per_s["fp16"] == pytest.approx(units * per_clock * ghz * 1e9, rel=0.015)
        assert peaks.units in (None, units)
