"""How the tokens of a model go to their experts, and how many hosts and GPUs each of them reaches.

With k of E experts for each token, on N hosts of D GPUs, and experts of at most M hosts for a token: experts are chosen
at random, all alike. A host is one of the M with the chance M / N, and then it has one of the k experts unless all of
these are among the others of the E M / N:

    p(host) = M / N (1 - C(E M / N - E / N, k) / C(E M / N, k)),  p(GPU) likewise with E / (N D) for the second E / N
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Literal

from clustersim.errors import InputError

Exchange = Literal["two-hop", "low-latency"]


@dataclass(frozen=True)
class Routing:
    """How tokens go to experts: `routed` of `experts` for each token, on at most `most_hosts` hosts (None: any).

    `exchange` says by which ways, and `returns` that results go back.
    """

    experts: int
    routed: int
    most_hosts: int | None = None
    exchange: Exchange = "two-hop"
    returns: bool = False

    def chances(self, num_hosts: int, gpus_per_host: int) -> tuple[float, float]:
        """Return the chances that a token has an expert on a given host, and on a given GPU.

        >>> tuple(round(chance, 3) for chance in Routing(256, 8, 4).chances(8, 8))
        (0.454, 0.115)
        """
        hosts = min(self.most_hosts or num_hosts, num_hosts)
        allowed = self.experts * hosts // num_hosts
        if allowed < self.routed:
            raise InputError(
                f"{self.routed} experts for each token are more than the {allowed} on {hosts} of {num_hosts} hosts; "
                "give a larger expert_hosts",
                key="expert_hosts",
                got=str(self.most_hosts),
                allowed=f"at least {-(-self.routed * num_hosts // self.experts)}",
            )
        of_host, of_gpu = self.experts // num_hosts, self.experts // (num_hosts * gpus_per_host)
        reached = (1 - comb(allowed - own, self.routed) / comb(allowed, self.routed) for own in (of_host, of_gpu))
        host, gpu = (hosts / num_hosts * each for each in reached)
        return host, gpu
