"""NCCL through the driver ``collective``, over a stand-in of torch with made-up GPUs."""

import sys
from types import SimpleNamespace

import pytest
from cuda_stand_in import install
from foretrace.hil.drivers.network.collective import CollectiveDriver
from foretrace.hil.sample import Request
from foretrace.sim.errors import DriverFault

HOST, KERNEL, LATE = 10_000, 50_000, 30_000  # ns: a launch, the collective, the wait of one rank


@pytest.fixture
def torch(monkeypatch):
    """Torch of two GPUs; rank 0 comes earlier and waits in its kernel for rank 1."""
    torch, told = install(monkeypatch), {}

    def join(backend, init_method, rank, world_size):
        told.update(backend=backend, rank=rank, world=world_size, where=init_method)

    def all_reduce(data):
        torch.cuda.launch(HOST, KERNEL + (LATE if told["rank"] == 0 else 0))()

    torch.cuda.device_count = lambda: 2
    torch.cuda.nccl = SimpleNamespace(version=lambda: (2, 21, 5))
    torch.set_default_device = lambda name: None
    torch.zeros = lambda size: size
    torch.distributed = SimpleNamespace(
        is_available=lambda: True, is_nccl_available=lambda: True, init_process_group=join,
        all_reduce=all_reduce,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch.distributed", torch.distributed)
    return torch


def opened(**spec):
    driver = CollectiveDriver()
    driver.open({"library": "nccl", **spec})
    return driver


def test_a_collective_takes_the_time_of_the_gpu_that_arrived_last(torch):
    driver = opened()
    (sample,) = driver.timing([Request("collective:all-reduce fp32[262144]", 4)])
    told = driver.describe()
    driver.close()
    assert sample.clock == "device"
    assert sample.ns.tolist() == [KERNEL] * 4
    assert sample.facts["busbw"] == pytest.approx(1048576 / KERNEL * 1e9)
    assert (told["device"], told["nccl"], told["ranks"]) == ("nccl", "2.21.5", "2")


def test_more_ranks_than_gpus_are_refused(torch):
    with pytest.raises(
        DriverFault, match="3 ranks need 3 GPUs, there are 2, and NCCL cannot share one"
    ):
        opened(ranks=3)


def test_what_the_host_does_and_what_gloos_bridge_has_is_refused(torch):
    driver = opened()
    with pytest.raises(DriverFault, match="runs on the host and not on a GPU; set library: gloo"):
        driver.timing([Request("collective:barrier fp32[1]")])
    driver.close()
    with pytest.raises(DriverFault, match="delay_us: is for gloo's bridge"):
        opened(delay_us=5.0)
    with pytest.raises(DriverFault, match="library is 'mpi'; one of gloo, nccl"):
        opened(library="mpi")


def test_a_torch_without_nccl_is_reported(torch):
    torch.distributed.is_nccl_available = lambda: False
    with pytest.raises(DriverFault, match="this torch has no NCCL; install one with CUDA"):
        opened()


def test_two_runs_do_not_measure_the_same_gpus(torch):
    first = opened()
    with pytest.raises(DriverFault, match="busy: nccl-cuda0"):
        opened()
    first.close()
    opened().close()
