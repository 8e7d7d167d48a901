"""A switch over gNMI: read through pygnmi from a small server in this process.

No real switch was at hand. The server answers in the form that SONiC documents, numbers as text.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from socket import socket

import pytest
from foretrace.hil.driver_registry import make_driver
from foretrace.hil.drivers.network import gnmi
from foretrace.hil.drivers.rdma import rdma
from foretrace.hil.sample import Request, Sample
from foretrace.sim.errors import DriverFault

grpc = pytest.importorskip("grpc", reason="NO GNMI: pip install pygnmi")
pb = pytest.importorskip("pygnmi.spec.v080.gnmi_pb2", reason="NO GNMI: pip install pygnmi")
stubs = pytest.importorskip("pygnmi.spec.v080.gnmi_pb2_grpc")

CONFIG = {
    "WRED_PROFILE": {"AZURE_LOSSLESS": {"ecn": "ecn_all", "green_min_threshold": "250000"}},
    "PORT_QOS_MAP/Ethernet0": {"pfc_enable": "3,4"},
}


class Sonic(stubs.gNMIServicer):
    """Its counters grow by 7 packets and 2 PFC frames each time they are read."""

    def __init__(self):
        self.reads, self.asked = 0, []

    def Capabilities(self, request, context):
        return pb.CapabilityResponse(supported_encodings=[pb.JSON_IETF], gNMI_version="0.7.0")

    def Get(self, request, context):
        updates = []
        for path in request.path:
            name = "/".join(e.name for e in path.elem)
            self.asked.append((request.prefix.target, name))
            told = self._table(request.prefix.target, name)
            if told is None:
                context.abort(grpc.StatusCode.NOT_FOUND, f"no {name}")
            value = pb.TypedValue(json_ietf_val=json.dumps(told).encode())
            updates.append(pb.Update(path=path, val=value))
        return pb.GetResponse(notification=[pb.Notification(prefix=request.prefix, update=updates)])

    def _table(self, target, name):
        if target == "CONFIG_DB":
            return CONFIG.get(name)
        if name == "COUNTERS/Ethernet0":
            self.reads += 1
            return {
                "SAI_PORT_STAT_IF_OUT_UCAST_PKTS": str(7 * self.reads),
                "SAI_PORT_STAT_PFC_3_RX_PKTS": str(2 * self.reads),
                "SAI_PORT_STAT_IF_OUT_ERRORS": "0",
            }
        if name == "COUNTERS/Ethernet0/Queues":
            return {"Ethernet0:3": {"SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES": str(4096)}}
        return None


@pytest.fixture
def switch(monkeypatch):
    """A server on this machine, which is waited for; the environment of an agent names it."""
    monkeypatch.setattr(gnmi, "WAIT", 600)
    server, sonic = grpc.server(ThreadPoolExecutor(2)), Sonic()
    stubs.add_gNMIServicer_to_server(sonic, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    monkeypatch.setenv(gnmi.ADDRESS, f"127.0.0.1:{port}")
    yield sonic
    server.stop(None).wait()


class Ends(rdma.VerbsDriver):
    """RDMA devices that take a microsecond for anything."""

    def open(self, spec):
        self.told = dict(spec)

    def describe(self):
        return {"device": "rxe1-rxe2"}

    def timing(self, requests):
        return [Sample(r.signature, [1000.0] * r.n, self.clock) for r in requests]


def test_counters_of_ports_and_queues_are_numbers(switch):
    reader = gnmi.GnmiReader(["Ethernet0"])
    told = reader.counters()
    reader.close()
    assert told["Ethernet0.SAI_PORT_STAT_PFC_3_RX_PKTS"] == 2
    assert told["Ethernet0.Ethernet0:3.SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES"] == 4096
    assert {target for target, _ in switch.asked} == {"COUNTERS_DB"}


def test_a_sample_tells_what_the_ports_of_the_switch_counted_meanwhile(switch, monkeypatch):
    monkeypatch.setattr(rdma, "VerbsDriver", Ends)
    driver = make_driver("switch")
    driver.open({"ends": "verbs", "counters": "gnmi", "ports": "Ethernet0"})
    (sample,) = driver.timing([Request("send:rdma-write uint8[64]", 2)])
    assert sample.facts == {
        "Ethernet0.SAI_PORT_STAT_IF_OUT_UCAST_PKTS": 7,
        "Ethernet0.SAI_PORT_STAT_PFC_3_RX_PKTS": 2,
    }
    told = driver.describe()
    assert told["WRED_PROFILE.AZURE_LOSSLESS.ecn"] == "ecn_all"
    assert told["PORT_QOS_MAP.Ethernet0.pfc_enable"] == "3,4"
    driver.close()


def test_a_port_that_the_switch_does_not_have_is_named(switch):
    reader = gnmi.GnmiReader(["Ethernet9"])
    with pytest.raises(DriverFault, match=r"broken: switch .*COUNTERS/Ethernet9.*no COUNTERS"):
        reader.counters()
    reader.close()


def test_a_switch_that_does_not_answer_is_missing(monkeypatch):
    monkeypatch.setattr(gnmi, "WAIT", 1)
    with socket() as silent:
        silent.bind(("127.0.0.1", 0))  # ours, so that nobody listens there
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(DriverFault, match=f"missing: switch {where}: no answer"):
            gnmi.GnmiReader(["Ethernet0"], {gnmi.ADDRESS: where})


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "missing: FORETRACE_GNMI is not set"),
        ({gnmi.ADDRESS: "leaf0"}, "missing: FORETRACE_GNMI is not set"),
        ({gnmi.ADDRESS: "leaf0:1", gnmi.USER: "me"}, "denied: .*another host could get the pass"),
    ],
)
def test_where_the_switch_is_comes_from_the_environment(environment, said):
    with pytest.raises(DriverFault, match=said):
        gnmi.GnmiReader(["Ethernet0"], environment)


def test_a_switch_that_is_read_is_not_changed():
    asked = {"ends": "verbs", "counters": "gnmi", "ports": "Ethernet0"}
    for more, said in (({"rate": "1gbit"}, "rate: cannot be set on a switch that is only read"),
                       ({"ports": ""}, "needs ends: verbs, and ports")):  # fmt: skip
        with pytest.raises(DriverFault, match=said):
            make_driver("switch").open({**asked, **more})
