"""Print the oldest versions that setup.cfg says are supported, as pip constraints."""

import configparser
from pathlib import Path

config = configparser.ConfigParser()
config.read(Path(__file__).resolve().parent.parent / "setup.cfg")
for requirement in config["options"]["install_requires"].split():
    name, lowest = requirement.split(">=")  # any other form of bound is refused here
    print(f"{name}=={lowest}")  # noqa: T201
