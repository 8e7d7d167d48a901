"""Driver of real training steps of the models in ``traces/zoo``, as ops of the torch driver."""

from collections.abc import Callable

from foretrace.hil.driver import driver
from foretrace.hil.drivers.pytorch.torch_device import TorchDriver
from foretrace.sim.facts.signature import parse_signature

STEP = "compute:step"


@driver("torch-zoo")
class Steps(TorchDriver):
    """Torch driver that can also train: ``compute:step gpt``, ``compute:step resnet50``."""

    ops = (*TorchDriver.ops, STEP)

    def _build(self, signature: str) -> Callable[[], object]:
        if not signature.startswith(f"{STEP} "):
            return super()._build(signature)
        return step(parse_signature(signature).name.partition(" ")[2])


def step(name: str) -> Callable[[], object]:
    """Function that runs one step, as in ``traces/zoo/train.py``."""
    import torch
    from foretrace.traces.zoo.gpt import GPT
    from foretrace.traces.zoo.resnet50 import resnet50

    with torch.enable_grad():
        model = {"gpt": lambda: GPT(2048, 256, 4, 64), "resnet50": resnet50}[name]()
    if name == "gpt":
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        if name == "gpt":
            text = torch.randint(2048, (4, 65))
            return text[:, :-1], text[:, 1:].flatten()
        return torch.randn(8, 3, 64, 64), torch.randint(1000, (8,))

    def once() -> None:
        with torch.enable_grad():
            sample, target = batch()
            loss = torch.nn.functional.cross_entropy(model(sample), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return once
