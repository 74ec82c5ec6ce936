"""A room of its own for the lab: new network and mount namespaces, which the kernel takes back with the last process.

So nothing can be left behind, whatever happens to the lab: what it makes is invisible outside and dies with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

INSIDE = "CLUSTERSIM_LAB_INSIDE"
"""Set to who made the room, inside it: `root`, or `user` who is root in there only."""

_PROGRAMS = ("ip", "tc", "unshare", "mount")

_TRIAL = """
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/netns
ip netns add trial
ip link add one type veth peer name other netns trial
ip link set one gso_max_size 7600
tc qdisc add dev one root handle 1: htb default 2
tc class add dev one parent 1: classid 1:1 htb rate 100mbit ceil 100mbit
tc class add dev one parent 1:1 classid 1:2 htb rate 1mbit ceil 100mbit quantum 8000
tc qdisc add dev one parent 1:2 pfifo limit 100
tc filter add dev one parent 1: protocol ip u32 match ip src 10.0.0.1/32 match ip dst 10.0.0.2/32 flowid 1:2
ip -n trial link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward
"""
"""Everything that the lab asks of a kernel, once."""


def is_inside() -> bool:
    """Say whether this process is in a room that `enter` made."""
    return who_made_it() is not None


def who_made_it() -> str | None:
    """Return `root` or `user`, who made the room that this process is in; None where it is in none."""
    return os.environ.get(INSIDE)


def why_not() -> str | None:
    """Return why the lab cannot run on this machine, in words for its user, or None where it can."""
    if sys.platform != "linux":
        return f"the lab is made of Linux network namespaces, and this is {sys.platform}"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"the lab needs {', '.join(missing)} (packages iproute2, util-linux and mount on Debian)"
    trial = subprocess.run([*_unshare(), "sh", "-c", _TRIAL], capture_output=True, text=True, check=False)
    if trial.returncode == 0:
        return None
    said = " / ".join(line for line in trial.stderr.splitlines() if "quantum of class" not in line)
    who = "root" if os.geteuid() == 0 else "a user without rights, in a user namespace"
    return f"the kernel does not let {who} make a cluster of network namespaces: {said or 'no reason given'}"


def enter(arguments: Sequence[str]) -> None:
    """Replace this process by `python -m validate.lab` with these arguments, in a room of its own."""
    script = 'mount -t tmpfs tmpfs /run && mkdir -p /run/netns && ip link set lo up && exec "$@"'
    command = [*_unshare(), "sh", "-c", script, "sh", sys.executable, "-m", "validate.lab", *arguments]
    sys.stdout.flush()
    os.execvpe(
        command[0], command, {**os.environ, INSIDE: "root" if os.geteuid() == 0 else "user", "OMP_NUM_THREADS": "1"}
    )


def _unshare() -> list[str]:
    as_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", "--mount", "--net", "--propagation", "private", *as_user]
