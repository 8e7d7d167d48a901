"""A driver that asks the one at the other end, as its settings say; agents load this file."""

import os
import signal

import numpy as np
from foretrace.hil.driver import Driver, Ready, checked, driver
from foretrace.hil.peer_link import FAR, peer_links
from foretrace.hil.sample import Sample
from foretrace.sim.errors import DriverFault


@driver("paired")
class Paired(Driver):
    ops = ("host:idle",)

    def probe(self):
        return Ready()

    def open(self, spec):
        self.links = peer_links(spec.get("peer"), self.exchange)
        self.settings = checked({k: v for k, v in spec.items() if k != "peer"},
                                {"device": "", "end": "", "say": "add", "heard": True})  # fmt: skip

    def describe(self):
        return {"device": "paired0"}

    def timing(self, requests):
        return [self._sample(request) for request in requests]

    def _sample(self, request):
        say, heard = self.settings["say"], []
        for link in self.links:
            heard.append(link.request({"do": say, "number": 1})["did"])
            link.send({"do": say, "number": 2})
            if self.settings["heard"]:
                heard.append(link.receive()["did"])
        return Sample(request.signature, np.full(request.n, 5.0), "wall", facts={"heard": heard})

    def peer(self, message):
        if self.settings["end"] != FAR:
            raise DriverFault("protocol", "I am near")
        if message["do"] == "die":
            os._exit(7)
        if message["do"] == "hang":
            signal.pause()
        if message["do"] == "refuse":
            raise DriverFault("broken", "the cable is out")
        return {"did": f"{self.settings['device']} does {message['do']} {message['number']}"}
