"""What the management library says, from a stand-in of the library."""

import os
import sys
from types import SimpleNamespace

import pytest
from foretrace.hil.drivers.gpu.nvml import Gpu
from foretrace.sim.errors import DriverFault


@pytest.fixture
def library(monkeypatch):
    """Installs the stand-in: how it is slowed, who runs there."""

    def install(reasons=0, running=(), refused=()):
        def handle(uuid):
            if uuid != "GPU-1":
                raise stand_in.NVMLError
            return uuid

        stand_in = SimpleNamespace(
            NVMLError=type("NVMLError", (Exception,), {}),
            NVML_CLOCK_SM=1,
            NVML_CLOCK_MEM=2,
            NVML_TEMPERATURE_GPU=0,
            nvmlInit=lambda: None,
            nvmlDeviceGetHandleByUUID=handle,
            nvmlDeviceGetCurrentClocksThrottleReasons=lambda h: reasons,
            nvmlDeviceGetViolationStatus=lambda h, policy: SimpleNamespace(violationTime=0),
            nvmlDeviceGetClockInfo=lambda h, kind: {1: 1980, 2: 3201}[kind],
            nvmlDeviceGetMaxClockInfo=lambda h, kind: 1980,
            nvmlDeviceGetEnforcedPowerLimit=lambda h: 700_000,
            nvmlDeviceGetMemoryInfo=lambda h: SimpleNamespace(total=1 << 37),
            nvmlDeviceGetMaxPcieLinkGeneration=lambda h: 5,
            nvmlDeviceGetMaxPcieLinkWidth=lambda h: 16,
            nvmlSystemGetDriverVersion=lambda: b"570.0",
            nvmlDeviceGetPowerUsage=lambda h: 650_000,
            nvmlDeviceGetTemperature=lambda h, kind: 61,
            nvmlDeviceGetComputeRunningProcesses=lambda h: [
                SimpleNamespace(pid=p) for p in running
            ],
        )

        def refusal(*_):
            raise stand_in.NVMLError

        vars(stand_in).update(dict.fromkeys(refused, refusal))
        monkeypatch.setitem(sys.modules, "pynvml", stand_in)

    return install


def test_clock_power_and_heat_of_a_batch(library):
    library(reasons=0x4)  # the power cap
    assert Gpu("GPU-1").facts() == {
        "gpu_mhz": 1980, "gpu_memory_mhz": 3201, "gpu_watts": 650.0, "gpu_celsius": 61,
        "gpu_reasons": 4, "throttled": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("reasons", "slowed"), [(0x1, 0), (0x40, 1), (0x8 | 0x4, 1), (0x20, 1)])
def test_heat_and_hardware_slow_a_gpu_idleness_does_not(library, reasons, slowed):
    library(reasons)
    assert Gpu("GPU-1").facts()["throttled"] == slowed


def test_a_batch_that_was_slowed_at_either_end_or_between_was_slowed(library):
    library(reasons=0x40)
    gpu = Gpu("GPU-1")
    with gpu.record_facts() as before:
        gpu.library.nvmlDeviceGetCurrentClocksThrottleReasons = lambda h: 0x4
        gpu.library.nvmlDeviceGetClockInfo = lambda h, kind: {1: 1755, 2: 3201}[kind]
    assert before["throttled"] == 1
    assert before["gpu_reasons"] == 0x44
    assert (before["gpu_mhz"], before["gpu_mhz_before"]) == (1755, 1980)
    with gpu.record_facts() as clean:
        pass
    assert clean["throttled"] == 0
    assert "gpu_mhz_before" not in clean
    gpu.library.nvmlDeviceGetViolationStatus = lambda h, policy: SimpleNamespace(violationTime=5e6)
    with gpu.record_facts() as between:  # neither reading sees it, the driver's own count does
        gpu.library.nvmlDeviceGetViolationStatus = lambda h, policy: SimpleNamespace(
            violationTime=8e6 if policy == 1 else 0
        )
    assert (between["throttled"], between["gpu_slowed_ns"]) == (1, 3_000_000)


def test_a_gpu_used_by_other_processes_is_busy(library):
    library(running=(os.getpid(),))
    Gpu("GPU-1").require_exclusive()
    library(running=(os.getpid(), 7))
    with pytest.raises(DriverFault, match=r"busy: the GPU is used by processes \[7\]"):
        Gpu("GPU-1").require_exclusive()


def test_values_a_gpu_does_not_report_are_omitted(library):
    library(refused=("nvmlDeviceGetPowerUsage", "nvmlDeviceGetCurrentClocksThrottleReasons"))
    assert set(Gpu("GPU-1").facts()) == {"gpu_mhz", "gpu_memory_mhz", "gpu_celsius"}


def test_the_provenance_has_the_driver_and_the_limits(library):
    library(refused=("nvmlDeviceGetMemoryInfo",))
    assert Gpu("GPU-1").static_facts() == {
        "gpu_driver": "570.0", "gpu_most_mhz": "1980", "gpu_most_watts": "700.0",
        "gpu_pcie": "5-x16",
    }  # fmt: skip


def test_in_a_container_one_unknown_process_id_is_taken_as_this_process(library):
    nowhere = 1 << 22  # Linux numbers processes below it (PID_MAX_LIMIT)
    library(running=(nowhere,))
    Gpu("GPU-1").require_exclusive()
    library(running=(nowhere, nowhere + 1))
    with pytest.raises(DriverFault, match=rf"busy: the GPU is used by processes \[{nowhere + 1}\]"):
        Gpu("GPU-1").require_exclusive()
    library(running=(os.getppid(),))
    with pytest.raises(DriverFault, match="busy"):
        Gpu("GPU-1").require_exclusive()


def test_without_nvml_or_a_gpu_all_facts_are_empty(library, monkeypatch):
    library()
    assert Gpu("GPU-2").facts() == {}
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Gpu("GPU-1").facts() == {}
    Gpu("GPU-1").require_exclusive()
