"""What the tests of the kernel share: receivers that write down what arrives, and when."""

from mypy_extensions import i64

from semcast.sim.network import Network, Receiver
from semcast.sim.scheduler import Handler, Scheduler

Arrival = tuple[int, int, int, bytes]  # time_ns, from, to, packet


class Log(Receiver):
    """Writes every arrival at a node into a list that all nodes share."""

    def __init__(self, scheduler: Scheduler, node: int, log: list[Arrival]) -> None:
        self.scheduler = scheduler
        self.node = node
        self.log = log

    def arrive(self, from_node: i64, packet: bytes) -> None:
        self.log.append((self.scheduler.now_ns, from_node, self.node, packet))


def watch(network: Network) -> list[Arrival]:
    """Attach a Log to every node."""
    log: list[Arrival] = []
    for node in range(network.nodes):
        network.attach(node, Log(network.scheduler, node, log))
    return log


class Sends(Handler):
    """Sends given packets at given times: (time_ns, from, to, size, packet)."""

    def __init__(self, network: Network, packets: list[tuple[int, int, int, int, bytes]]) -> None:
        self.network = network
        self.packets = packets
        number = network.scheduler.add(self)
        for at, packet in enumerate(packets):
            network.scheduler.at(packet[0], number, at)

    def fire(self, argument: i64) -> None:
        _, from_node, to_node, size_bytes, packet = self.packets[argument]
        self.network.send(from_node, to_node, size_bytes, packet)
