"""A small catalog, a whole scenario, and what is wrong with its edits."""

from collections.abc import Callable
from pathlib import Path

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.config.scenario import Scenario

CATALOG = """\
gpu:
  test-gpu-80g:
    bandwidth: {value: 3 TB/s, source: {kind: datasheet, where: sheet 1, date: 2026-11-01}}
    peaks: {bf16: {value: 900 Tflop/s, source: {kind: fitted, where: run 2, error: 3 %}}}
    memory: {value: 80 GB, source: {kind: datasheet, where: sheet 1}}
  test-gpu-40g:
    bandwidth: {value: 1 TB/s, source: {kind: assumed, where: half of another}}
nic:
  test-nic-7:
    bandwidth: {value: 200 Gb/s, source: {kind: measured, where: two ports}}
    latency: {value: 1.3 us, source: {kind: assumed, where: nobody knows}}
cxl:
  test-expander:
    size: {value: 128 GB, source: {kind: datasheet, where: sheet 3}}
switch:
  test-switch-5:
    bandwidth: {value: 800 Gb/s, source: {kind: datasheet, where: sheet 4}}
    latency: {value: 0.6 us, source: {kind: assumed, where: nobody knows}}
    ports: {value: 64, source: {kind: datasheet, where: sheet 4}}
link:
  test-pcie:
    bandwidth: {value: 63 GB/s, source: {kind: datasheet, where: sheet 5}}
    latency: {value: 0.5 us, source: {kind: assumed, where: nobody knows}}
"""

WHOLE = """\
foretrace: 1
name: upgrade
question: Is it worth it?

workload:
  trace: traces/rank*.json.gz
  format: kineto
  recorded_on: {device: test-gpu-80g, nodes: 2, parallel: {tensor: 8, data: 2}}
  scale_to: {parallel: {tensor: 8, data: 16}}
  iterations: {warm_up: 2, measure: 20}

cluster:
  nodes: 16
  node:
    gpu: {model: test-gpu-80g, count: 8}
    nic: {model: test-nic-7, count: 8, bandwidth: 200 Gb/s, latency: 1.3 us}
    cxl: {model: test-expander, size: 0 GB}
    links:
      - {from: gpu, to: gpu, via: test-pcie, bandwidth: 450 GB/s, latency: 0.8 us}
      - {from: gpu, to: nic, via: test-pcie}
  fabric: {topology: fat-tree, switch: test-switch-5, oversubscription: 1}
  override:
    node3.gpu*: {slowdown: 1.3}

backends:
  node*.gpu*: {use: roofline, bandwidth: 3 TB/s, peaks: {bf16: 900 Tflop/s}, launch: 2.1 us}

placement:
  optimizer_state: hbm

cost:
  items:
    - {what: gpu, each: 2.10 USD/hour}
    - {what: nic, each: 0.06 USD/hour}

what_if:
  - name: nic-400
    set: {cluster.node.nic.bandwidth: 400 Gb/s}
    cost: {nic: 0.11 USD/hour}
  - name: offload
    set: {cluster.node.cxl.size: 512 GB}
  - name: both
    use: [nic-400, offload]

expect:
  - that: iteration_time.p95 <= 37 s
  - that: nic.utilization.p95 <= 90 %
    otherwise: warn

run: {seed: 7, replicas: 5}
"""


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("catalog")
    (folder / "parts.yaml").write_text(CATALOG)
    return str(folder)


@pytest.fixture
def whole() -> str:
    """A scenario with every section, in which everything is right."""
    return WHOLE


@pytest.fixture
def scenario(catalog: str) -> Callable[..., Scenario]:
    """Load a text; its file is called s.yaml."""

    def load(text: str = WHOLE, **options: object) -> Scenario:
        return loads(text, file="s.yaml", catalogs=[catalog], **options)

    return load


@pytest.fixture
def edited(catalog: str) -> Callable[..., str]:
    """What is said of the whole scenario after an edit."""

    def complain(old: str, new: str, **options: object) -> str:
        assert WHOLE.count(old) == 1, f"{old!r} must stand once in the scenario"
        with pytest.raises(InvalidScenarioError) as caught:
            loads(WHOLE.replace(old, new), file="s.yaml", catalogs=[catalog], **options)
        return str(caught.value)

    return complain


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write files into an empty current folder."""
    monkeypatch.chdir(tmp_path)

    def write(**texts: str) -> Path:
        for name, text in texts.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        return tmp_path

    return write
