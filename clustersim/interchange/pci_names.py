"""Sheets of GPUs and processors by the names and numbers that tools report."""

from __future__ import annotations

import re

from clustersim.collectives.nccl_channels import compute_capability
from clustersim.hardware import CPUS, GPUS, LINKS, load_gpu, load_link

_GPUS = {
    "10de:15f9": "p100", "10de:15f7": "p100-pcie", "10de:1db0": "v100", "10de:1db1": "v100", "10de:1db3": "v100",
    "10de:1db4": "v100-pcie", "10de:1db5": "v100-32gb", "10de:1db6": "v100-pcie", "10de:1db8": "v100-32gb",
    "10de:1eb8": "t4", "10de:20b0": "a100-40gb", "10de:20b2": "a100", "10de:20b5": "a100-pcie",
    "10de:20f1": "a100-pcie", "10de:2204": "rtx-3090", "10de:2230": "rtx-a6000", "10de:2231": "rtx-a5000",
    "10de:2235": "a40",
    "10de:2237": "a10g", "10de:2321": "h100-nvl", "10de:2329": "h20", "10de:2330": "h100", "10de:2331": "h100-pcie",
    "10de:2335": "h200", "10de:2342": "gh200", "10de:2684": "rtx-4090", "10de:26b9": "l40s", "10de:27b8": "l4",
    "10de:2901": "b200", "10de:2941": "gb200", "1002:74a1": "mi300x", "1002:74a5": "mi325x", "1002:75a3": "mi355x",
    "1002:7408": "mi250x", "1002:740c": "mi250x",
}  # fmt: skip
"""Recalled: the PCI ID Repository (pci-ids.ucw.cz), devices of NVIDIA (10de) and AMD (1002)."""

_CAPABILITIES = {
    60: "p100", 61: "p40", 70: "v100", 75: "t4", 80: "a100", 86: "rtx-a6000", 89: "l40s", 90: "h100", 100: "b200",
    103: "b300", 120: "rtx-5090",
}  # fmt: skip
"""The board that is most usual in servers for a compute capability, times 10 (NVIDIA, CUDA GPU Compute Capability)."""

_OTHERS = {"a10g": 86, "a40": 86, "rtx-3090": 86, "rtx-a5000": 86, "rtx-pro-6000": 120}
"""Of boards that differ from the first of their architecture."""

_FORMS = {"pcie", "nvl"}

_AMD = {"gfx90a": "mi250x", "910": "mi250x", "gfx942": "mi300x", "gfx950": "mi355x"}

_PROCESSORS = (
    ("AuthenticAMD", 175, 0x10, "epyc-9654"), ("AuthenticAMD", 143, 0, "epyc-7742"),
    ("GenuineIntel", 6, 0xCF, "xeon-platinum-8570"), ("GenuineIntel", 6, 0x8F, "xeon-platinum-8480c"),
    ("GenuineIntel", 6, 0x55, "xeon-platinum-8168"), ("GenuineIntel", 6, 0x4F, "xeon-e5-2698-v4"),
    ("GenuineIntel", 6, 0x3F, "xeon-e5-2680-v3"), ("GenuineIntel", 6, 0, "xeon-e5-2650-v2"),
)  # fmt: skip
"""Vendor, least family (that of AMD 0x8F for Zen, 0xAF for Zen 3 and later), least model, and a sheet."""

_GENERATIONS = (
    (r"epyc-7\w\w2", "AuthenticAMD", 143, 0x31), (r"epyc-7\w+3", "AuthenticAMD", 175, 1),
    (r"epyc-9\w+", "AuthenticAMD", 175, 0x11), (r"xeon-e5-.*-v2", "GenuineIntel", 6, 0x3E),
    (r"xeon-e5-.*-v3", "GenuineIntel", 6, 0x3F), (r"xeon-e5-.*-v4", "GenuineIntel", 6, 0x4F),
    (r"xeon-\w+-[4-8][12]\w+", "GenuineIntel", 6, 0x55), (r"xeon-\w+-[4-8]4\w+", "GenuineIntel", 6, 0x8F),
    (r"xeon-\w+-[4-8]5\w+", "GenuineIntel", 6, 0xCF),
)  # fmt: skip
"""Names of sheets of a generation, and its vendor, family and model (recalled: CPUID of these processors)."""


_ARCHITECTURES = {"grace": "arm64"}
"""Of processors that are not of x86-64 (NVIDIA/nccl, src/graph/topo.h: x86_64, arm64, ppc64)."""


def gpu_of_pci(vendor: str, device: str) -> str | None:
    """Return the sheet of a GPU by its PCI numbers, such as `0x10de` and `0x2330`; None if there is none.

    >>> gpu_of_pci("0x10de", "0x2330"), gpu_of_pci("10de", "ffff")
    ('h100', None)
    """
    return _known(_GPUS.get(f"{_hexadecimal(vendor)}:{_hexadecimal(device)}"))


def pci_of_gpu(sheet: str) -> tuple[str, str] | None:
    """Return the vendor and the device of a sheet's GPU, the first where there are several.

    >>> pci_of_gpu("h100"), pci_of_gpu("k80")
    (('10de', '2330'), None)
    """
    found = next((numbers for numbers, name in _GPUS.items() if name == sheet), None)
    return None if found is None else (found[:4], found[5:])


def gpu_of_capability(capability: int) -> str | None:
    """Return a sheet of GPUs with a compute capability, times 10."""
    return _known(_CAPABILITIES.get(capability))


def gpu_of_amd(architecture: str) -> str | None:
    """Return the sheet of an AMD architecture.

    >>> gpu_of_amd("gfx942:sramecc+:xnack-")
    'mi300x'
    """
    return _known(_AMD.get(architecture.partition(":")[0]))


def capability_of(sheet: str) -> int | None:
    """Return the compute capability of a sheet's GPU, times 10; None for one of another maker.

    >>> capability_of("h200"), capability_of("a40"), capability_of("mi300x")
    (90, 86, None)
    """
    usual = next((number for number, name in _CAPABILITIES.items() if name == sheet), None)
    return usual or _OTHERS.get(sheet) or compute_capability(load_gpu(sheet).architecture) or None


def gpu_named(model: str, num_multiprocessors: int | None = None) -> str | None:
    """Return the GPU's sheet that has the most words of a device's name, and no others; None if none fits.

    A sheet with another number of multiprocessors, where that is given, is for another product.

    >>> [gpu_named(name, 108) for name in ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB", "Tesla V100")]
    ['a100-40gb', 'a100-pcie', None]
    """
    words = set(_words(model))
    fitting = [name for name in GPUS if set(_words(name)) <= words]
    if num_multiprocessors is not None:
        fitting = [name for name in fitting if load_gpu(name).num_multiprocessors == num_multiprocessors]
    return _most_words(fitting)


def cpu_named(model: str) -> str | None:
    """Return the processor's sheet all of whose words are in its name.

    >>> cpu_named("AMD EPYC 7742 64-Core Processor"), cpu_named("Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz")
    ('epyc-7742', 'xeon-e5-2698-v4')
    """
    words = set(_words(model))
    return _most_words([name for name in CPUS if set(_words(name)) <= words])


def cpu_of_family(vendor: str, family: int, model: int) -> str | None:
    """Return a sheet of the generation of a processor, by the numbers of CPUID as NCCL writes them.

    >>> cpu_of_family("GenuineIntel", 6, 85), cpu_of_family("AuthenticAMD", 143, 49)
    ('xeon-platinum-8168', 'epyc-7742')
    """
    fitting = (
        sheet
        for of, since, least, sheet in _PROCESSORS
        if of == vendor and since <= family and (family > since or model >= least) and sheet in CPUS
    )
    return next(fitting, None)


def family_of(sheet: str) -> tuple[str, int, int] | None:
    """Return vendor, family and model of a processor's generation as NCCL writes them, None if unknown.

    >>> family_of("xeon-e5-2680-v3"), family_of("xeon-platinum-8275cl"), family_of("opteron-6274")
    (('GenuineIntel', 6, 63), ('GenuineIntel', 6, 85), None)
    """
    for start, vendor, family, model in _GENERATIONS:
        if re.fullmatch(start, sheet):
            return vendor, family, model
    return None


def architecture_of(sheet: str) -> str:
    """Return the instruction set of a processor as NCCL writes it.

    >>> architecture_of("grace"), architecture_of("epyc-7742")
    ('arm64', 'x86_64')
    """
    return _ARCHITECTURES.get(sheet, "x86_64")


def pcie_link(gigatransfers: float, width: int) -> str | None:
    """Return the link of a PCIe slot with so many GT/s a lane and lanes: a sheet, or the share of one; None if unknown.

    >>> pcie_link(16.0, 16), pcie_link(32.0, 4), pcie_link(7.0, 16)
    ('pcie-4-x16', '13.75 GB/s', None)
    """
    generation = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}.get(gigatransfers)
    if generation is None or not 1 <= width <= 32:
        return None
    if f"pcie-{generation}-x{width}" in LINKS:
        return f"pcie-{generation}-x{width}"
    of, times = (f"pcie-{generation}-x16", 1.0)
    if of not in LINKS:
        of, times = ("pcie-2-x16", 0.5) if generation == 1 else ("pcie-5-x16", 2.0)
    return f"{times * load_link(of).bytes_per_s * width / 16 / 1e9:.6g} GB/s"


def _known(sheet: str | None) -> str | None:
    return sheet if sheet in GPUS else None


def _hexadecimal(number: str) -> str:
    return number.lower().removeprefix("0x").rjust(4, "0")


def _most_words(names: list[str]) -> str | None:
    """Return the name with the most words; of several, one that names the form of the board."""
    return max(names, key=lambda name: (len(_words(name)), not _FORMS.isdisjoint(_words(name))), default=None)


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())
