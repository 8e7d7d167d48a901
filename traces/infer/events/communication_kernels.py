"""Names of the kernels that communication libraries use to exchange data between GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate

COLLECTIVE = r"(all|intra|inter)_?(reduce|gather|to_?all)|reduce_?scatter(?!_add)|(?<!un)sendrecv"
LIBRARIES = (
    r"(nccl|rccl|msccl|oneccl|hccl|xccl)\w*kernel|ncclDevKernel|ncclSym\w*DevKernel",  # NCCL, RCCL
    r"mscclpp|oneapi::ccl|\bccl_\w*(kernel|reduce|gather)",  # MSCCL++, oneCCL
    r"deep_ep::(intranode|internode|internode_ll)::|\bpplx\w*::(dispatch|combine)",  # DeepEP, pplx
    r"nv_?shmem|rocshmem",  # NVSHMEM, rocSHMEM
    r"multimem_|symm(etric)?_?mem|(one|two)_?shot_?all|hybridCubeMesh",  # PyTorch, symmetric memory
    r"cross_device_(reduce|sum)|quick_?reduce",  # vLLM, SGLang, AITER, TensorRT-LLM
    r"userbuffers_|kuserbuffers|moe_?all_?to_?all|lamport",  # Transformer Engine, TensorRT-LLM
    r"\bgloo::|\bucc_|\bucp_|\buct_|ucx",  # gloo, UCC, UCX
    COLLECTIVE,  # written for one program
)
_KNOWN = re.compile("|".join(LIBRARIES), re.IGNORECASE)


def is_communication(kernel: str, more: Iterable[str] = ()) -> bool:
    """True if a GPU kernel exchanges data with other GPUs, judged by its name.

    Parameters
    ----------
    more : patterns of further kernel names, such as ``my_kernel*``

    Examples
    --------
    >>> is_communication("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)")
    True
    >>> is_communication("void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)")
    True
    >>> is_communication("void softmax_warp_forward<float, WarpAllReduce>(float*)")
    False
    >>> is_communication("exchange_halo", ["exchange_*"])
    True
    """
    if any(re.match(translate(pattern), kernel) for pattern in more):
        return True
    plain = kernel.replace("(anonymous namespace)::", "")
    return bool(_KNOWN.search(re.split("[<(]", plain, maxsplit=1)[0]))
