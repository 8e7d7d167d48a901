"""A driver whose device behaves as the settings say; an agent loads this file like a user's own."""

import os
import signal
from pathlib import Path

import numpy as np
from foretrace.hil.driver import Driver, Missing, Ready, checked, driver
from foretrace.hil.sample import Sample
from foretrace.sim.errors import DriverFault

ANSWERS = {
    "nan": np.nan,
    "infinite": np.inf,
    "negative": -1.0,
    "absurd": 1e15,
    "stood": 0.0,
}


@driver("odd")
class Odd(Driver):
    ops = ("host:idle", "host:other", "copy:h2h")
    clock = "wall"

    def probe(self):
        fault = os.environ.get("ODD_PROBE", "")
        return Missing(fault, "no such device", "plug one in") if fault else Ready(("odd0",))

    def open(self, spec):
        self.fault = checked(spec, {"fault": "", "after": 0, "mark": ""})
        self.asked = 0
        if os.environ.get("ODD_OPEN"):
            raise DriverFault(os.environ["ODD_OPEN"], "no such device; plug one in")
        if self.fault["fault"] in ("busy", "denied"):
            raise DriverFault(self.fault["fault"], "odd0: not for you; ask its owner")

    def describe(self):
        return {"device": "odd0"}

    def timing(self, requests):
        print("what a library prints must not reach the protocol")
        self.asked += len(requests)
        fault = self.fault["fault"] if self.asked > self.fault["after"] else ""
        if fault == "died":
            os._exit(7)
        if fault == "hung":
            if self.fault["mark"]:
                Path(self.fault["mark"]).write_text("from here on")
            signal.pause()
        if fault == "raise":
            raise RuntimeError("the library is unhappy")
        samples = [self._sample(r, ANSWERS.get(fault, 100.0), fault) for r in requests]
        return samples * 2 if fault == "too-many" else samples

    def close(self):
        if self.fault["fault"] == "hung-close":
            signal.pause()

    def together(self, requests):
        return [self._sample(r, 100.0 * len(requests), "") for r in requests]

    def _sample(self, request, value, fault):
        signature = "host:other" if fault == "unrequested" else request.signature
        n = request.n + {"too-long": 1, "too-short": -1, "partial": -1}.get(fault, 0)
        facts = {"partial": "the device was taken away"} if fault == "partial" else {}
        clock = "device" if fault == "clock" else self.clock
        noise = 1 + 0.001 * np.arange(n)
        return Sample(signature, value * noise, clock, context=request.key[1], facts=facts)
