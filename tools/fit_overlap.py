"""What recorded steps say of kernels beside collectives: how much longer they take.

    FORETRACE_DATA=../shared/data python tools/fit_overlap.py [--more FOLDER] [--once]

Whole traces were set aside by the hash of their names before the first fit: ``ASIDE``.
"""

from __future__ import annotations

from foretrace.models.calibration.parameter_search import held_out_mask

SEED = "foretrace-overlap-1"
HTA = "facebookresearch/HolisticTraceAnalysis f4d0062c, tests/data"
TRACES = {  # those of all that were at hand in which kernels run beside collectives
    "ddp-A100x2": ("rank0.json.gz",),
    "dlrm-A100x8-rank3": ("control.json.gz",),
    "dlrm-V100x2-rank1": ("test.json.gz",),
    "dlrm-8xV100": tuple(f"kineto/rank{rank}.json.gz" for rank in range(8)),
    "resnet-actckpt-MI300Xx8-rank0": ("trace.json.gz",),
    "hta-16ranks-A100": ("negative_queue_length_values_check/rank0.json.gz",),  # of HTA
    "hta-sampled-2ranks": tuple(f"trace_filter/sampled_rank-{rank}.json.gz" for rank in (0, 1)),
}
ASIDE = dict(zip(TRACES, held_out_mask(tuple(TRACES), share=0.5, seed=SEED).tolist(), strict=True))
