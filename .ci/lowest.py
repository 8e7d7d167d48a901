"""Print the oldest versions that setup.cfg says are supported, as pip constraints."""

import configparser
from pathlib import Path

config = configparser.ConfigParser()
config.read(Path(__file__).resolve().parent.parent / "setup.cfg")
needed = config["options"]["install_requires"].split()
# Its generated messages go with one generation of protobuf: the oldest with the oldest.
needed += [r for r in config["options.extras_require"]["dev"].split() if "perfetto" in r]
for requirement in needed:
    name, versions = requirement.split(">=")  # any other form of bound is refused here
    print(f"{name}=={versions.partition(',<')[0]}")  # noqa: T201
