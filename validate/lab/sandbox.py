"""A sandbox for the lab: new network and mount namespaces, which the kernel removes with the last process.

So nothing is left behind, whatever happens: the interfaces of the lab are invisible outside and disappear with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

INSIDE = "CLUSTERSIM_LAB_INSIDE"
"""Environment variable inside the sandbox: `root`, or `user` in a user namespace, which created it."""

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
"""A script with everything that the lab needs from the kernel."""


def is_inside() -> bool:
    """Return whether this process is in a sandbox of `enter`."""
    return sandbox_creator() is not None


def sandbox_creator() -> str | None:
    """Return `root` or `user`, the creator of this process's sandbox; None outside a sandbox."""
    return os.environ.get(INSIDE)


def unavailable_reason() -> str | None:
    """Return why the lab cannot run on this machine; None if it can."""
    if sys.platform != "linux":
        return f"the lab needs Linux network namespaces (got {sys.platform})"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"the lab needs {', '.join(missing)} (packages iproute2, util-linux and mount on Debian)"
    trial = subprocess.run([*_unshare(), "sh", "-c", _TRIAL], capture_output=True, text=True, check=False)
    if trial.returncode == 0:
        return None
    reason = " / ".join(line for line in trial.stderr.splitlines() if "quantum of class" not in line)
    user = "root" if os.geteuid() == 0 else "an unprivileged user, in a user namespace,"
    return f"the kernel does not allow {user} to create shaped network namespaces: {reason or 'no reason given'}"


def enter(arguments: Sequence[str]) -> None:
    """Replace this process with `python -m validate.lab` and these arguments, in a sandbox."""
    script = 'mount -t tmpfs tmpfs /run && mkdir -p /run/netns && ip link set lo up && exec "$@"'
    command = [*_unshare(), "sh", "-c", script, "sh", sys.executable, "-m", "validate.lab", *arguments]
    sys.stdout.flush()
    os.execvpe(
        command[0], command, {**os.environ, INSIDE: "root" if os.geteuid() == 0 else "user", "OMP_NUM_THREADS": "1"}
    )


def _unshare() -> list[str]:
    as_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", "--mount", "--net", "--propagation", "private", *as_user]
