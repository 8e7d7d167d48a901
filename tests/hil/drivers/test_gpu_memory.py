"""GPU memory for a NIC beside: exported, registered, and refused by name where that cannot be."""

import os
import sys
from types import SimpleNamespace

import pytest
from foretrace.hil.drivers.gpu import gpu_memory
from foretrace.hil.drivers.gpu.cuda_library import ATTRIBUTES, DMA_BUF_SUPPORTED, device_attributes
from foretrace.hil.drivers.gpu.gpu_memory import exported_gpu_memory, register_gpu_memory
from foretrace.hil.drivers.rdma.rdma import VerbsDriver
from foretrace.sim.errors import DriverFault

PAGE = 1 << 16


class Library:
    """CUDA's library: what it was asked for, and what it says."""

    def __init__(self, able=1, export=0, memory=0):
        self.able, self.export, self.memory = able, export, memory
        self.told, self.files = {16: 132, 40: 3, DMA_BUF_SUPPORTED: able}, []
        self.kept = 0

    def cuDeviceGetAttribute(self, value, code, number):
        if code not in self.told:
            return 1
        value._obj.value = self.told[code]
        return 0

    def cuDevicePrimaryCtxRetain(self, context, number):
        self.kept += 1
        return 0

    def cuCtxSetCurrent(self, context):
        return 0

    def cuMemAlloc_v2(self, pointer, size):
        pointer._obj.value = 3 * PAGE + 512  # not at a page
        self.kept += 1
        return self.memory

    def cuMemGetHandleForAddressRange(self, file, pointer, size, kind, flags):
        self.range = (pointer.value, size.value, kind, flags)
        if self.export == 0:
            file._obj.value = os.open(os.devnull, os.O_RDONLY)
            self.files.append(file._obj.value)
        return self.export

    def cuMemFree_v2(self, pointer):
        self.kept -= 1

    def cuDevicePrimaryCtxRelease_v2(self, number):
        self.kept -= 1


def test_a_range_is_exported_by_whole_pages_and_given_back():
    library = Library()
    with exported_gpu_memory(100_000, library) as (file, whole):
        assert whole == 2 * PAGE
        assert library.range == (4 * PAGE, 2 * PAGE, 1, 0)
        os.fstat(file)
    assert library.kept == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)


@pytest.mark.parametrize(
    ("library", "match"),
    [
        (Library(able=0), "unsupported: GPU 0: its driver does not export memory; dma-buf needs "
         "NVIDIA's open kernel modules"),
        (Library(export=801), "unsupported: GPU 0: CUDA says error 801; dma-buf needs"),
    ],
)  # fmt: skip
def test_a_gpu_that_exports_nothing_is_refused_with_the_cure_and_nothing_is_kept(library, match):
    with pytest.raises(DriverFault, match=match), exported_gpu_memory(64, library):
        pass
    assert library.kept == 0


def test_without_a_gpu_it_is_missing(monkeypatch):
    monkeypatch.setattr(gpu_memory, "load_cuda_library", lambda: None)
    with pytest.raises(DriverFault, match=r"missing: libcuda.so.1 finds no GPU"), (
        exported_gpu_memory(64)
    ):  # fmt: skip
        pass


def test_a_gpu_that_gives_no_memory_is_broken():
    with pytest.raises(DriverFault, match=r"broken: GPU 0: CUDA refuses 65536 B of it"), (
        exported_gpu_memory(64, Library(memory=2))
    ):  # fmt: skip
        pass


@pytest.fixture
def pyverbs(monkeypatch):
    """Installs pyverbs as it is from 33 on; its region says what it was made with."""

    def install(refuses=False, old=False):
        class RefusedError(Exception):
            pass

        def region(*told):
            if refuses:
                raise RefusedError("Failed to register a dma-buf MR. Errno: 95")
            return told

        mr = SimpleNamespace() if old else SimpleNamespace(DmaBufMR=region)
        monkeypatch.setitem(sys.modules, "pyverbs", SimpleNamespace(mr=mr))
        monkeypatch.setitem(sys.modules, "pyverbs.mr", mr)
        error = SimpleNamespace(PyverbsRDMAError=RefusedError)
        monkeypatch.setitem(sys.modules, "pyverbs.pyverbs_error", error)

    return install


def test_the_nic_registers_the_dma_buf_file(pyverbs):
    pyverbs()
    assert register_gpu_memory("pd", 7, PAGE, 15) == ("pd", PAGE, 15, 7, 0)


def test_a_nic_or_a_pyverbs_that_cannot_is_named_with_the_cure(pyverbs):
    pyverbs(refuses=True)
    with pytest.raises(DriverFault, match=r"unsupported: the NIC refuses .*Linux 5.12"):
        register_gpu_memory("pd", 7, PAGE, 15)
    pyverbs(old=True)
    with pytest.raises(DriverFault, match="unsupported: this pyverbs does not support dma-buf"):
        register_gpu_memory("pd", 7, PAGE, 15)


def test_registering_is_an_op_of_verbs():
    assert VerbsDriver().answers("host:verbs-reg-gpu uint8[1048576]")


def test_cuda_attributes_are_reported_and_missing_ones_omitted():
    assert device_attributes(Library(), 0) == {"gpu_processors": "132", "gpu_copy_engines": "3"}
    assert set(ATTRIBUTES.values()) == {13, 16, 36, 37, 38, 40, 75, 76}  # cuda.h
