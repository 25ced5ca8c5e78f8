"""An error of the operating system goes in; ours comes out: one line with what to do about it."""

import errno
from typing import Final

from semcast.errors import TransportError

_ADVICE: Final = {
    errno.EADDRINUSE: "another program holds that port and does not share it: choose another port",
    errno.EADDRNOTAVAIL: "no interface of this machine has that address: `ip address` lists them",
    errno.EACCES: "this needs a right that the process does not have: choose a port above 1023, "
    "or ask whoever runs this machine",
    errno.EPERM: "a firewall or a sandbox forbids it: ask whoever runs this machine",
    errno.ENETUNREACH: "there is no route: name an interface (lo for one machine), or use unicast",
    errno.ENODEV: "that interface cannot do it: name another, or use unicast",
    errno.EAFNOSUPPORT: "this machine has no such family: use the other of IPv4 and IPv6",
    errno.ENOBUFS: "too many groups are joined: raise net.ipv4.igmp_max_memberships",
    errno.EMFILE: "the process has no free file descriptor: raise `ulimit -n`",
}
IPV6_LOOPBACK_ADVICE: Final = (
    "loopback has no route for IPv6 multicast; run: ip -6 route add local ff00::/8 dev lo"
)


def refused(doing: str, error: OSError, advice: str = "") -> TransportError:
    what = (error.strerror or str(error)).lower()
    told = advice or _ADVICE.get(error.errno or 0, "`semcast doctor` looks for the reason")
    return TransportError(f"the network of this machine refuses: {doing}: {what}; {told}")
