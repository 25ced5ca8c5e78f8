"""`python -m bench.peers.worker`: one of the three processes of a run; started by the harness.

Reads what to do from standard input, says what happened on standard output (`orders`).
"""

import contextlib
import os
import traceback
from importlib import import_module

from bench.peers.api import SENDER, Peer, Setup, UnavailableError, Variant
from bench.peers.case import Case
from bench.peers.orders import Orders
from bench.peers.receiving import Receiving
from bench.peers.sending import Sending


def _send(variant: Variant, setup: Setup, case: Case, orders: Orders) -> None:
    sender = variant.sender(setup)
    sender.open()
    sending = Sending(sender, case, orders)
    sending.warm_up()
    orders.say("sent", **sending.run())
    orders.finish.wait()
    orders.say("done", **sending.used())
    sender.close()


def _receive(variant: Variant, setup: Setup, case: Case, orders: Orders) -> None:
    receiver = variant.receiver(setup)
    receiver.open()
    slow = case.slow and setup.role == setup.receivers[-1]
    receiving = Receiving(receiver, case, slow, orders)
    found = receiving.run()
    orders.say("done", **found)
    if found["cut_off"]:
        # Nobody will read from it any more, so nobody may wait for it.
        with contextlib.suppress(Exception):
            receiver.close()
        orders.finish.wait()
        return
    # Others may still need what this end acknowledges or repairs.
    orders.finish.wait()
    receiver.close()


def main() -> None:
    orders = Orders()
    spec = orders.spec()
    peer: Peer = import_module(spec["module"]).PEER
    spec["setup"]["receivers"] = tuple(spec["setup"]["receivers"])
    setup, case = Setup(**spec["setup"]), Case(**spec["case"])
    work = _send if setup.role == SENDER else _receive
    try:
        work(peer.variants[spec["variant"]], setup, case, orders)
    except UnavailableError as error:
        orders.say("unavailable", reason=str(error))
    except Exception as error:  # whatever a peer raises becomes its line in the table
        traceback.print_exc()
        orders.say("failed", reason=f"{type(error).__name__}: {error}")
    # Some libraries leave threads that would keep the process alive; all is said.
    os._exit(0)


if __name__ == "__main__":
    main()
