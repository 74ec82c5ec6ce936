"""How the tokens of a model go to their experts, and how many hosts and GPUs each of them reaches.

With k of E experts for each token, on N hosts of D GPUs, and experts of at most M hosts for a token: scores of experts
are random, all alike, and hosts are those of the best experts. The k best experts of all are on d hosts with a chance
that follows by inclusion and exclusion. If d is at most M, these hosts are the token's; else M of them are:

    p(host) = sum over d of min(M, d) / N p(d)
    p(d) = C(N, d) sum over j of (-1)^j C(d, j) C((d - j) E / N, k) / C(E, k)

DeepSeek-V3 takes the hosts with the largest sum of the two best scores, for 8 experts on 4 hosts (arXiv:2412.19437,
section 2.1.2), of which a token uses 3.95 where this has 3.98. On a GPU a token has an expert unless all of its experts
are among the others of M hosts, taken to be any:

    p(GPU) = M / N (1 - C(E M / N - E / (N D), k) / C(E M / N, k)),  up to 2 % less than with the best hosts
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Literal

from clustersim.errors import InputError

Exchange = Literal["two-hop", "low-latency"]


@dataclass(frozen=True)
class TokenRoute:
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

        >>> tuple(round(chance, 3) for chance in TokenRoute(256, 8, 4).chances(8, 8))
        (0.498, 0.115)
        """
        hosts = min(self.most_hosts or num_hosts, num_hosts)
        of_host, of_gpu = self.experts // num_hosts, self.experts // (num_hosts * gpus_per_host)
        allowed = of_host * hosts
        if allowed < self.routed:
            raise InputError(
                f"{self.routed} experts for each token are more than the {allowed} on {hosts} of {num_hosts} hosts; "
                "give a larger expert_hosts",
                key="expert_hosts",
                got=str(self.most_hosts),
                allowed=f"at least {-(-self.routed // of_host)}",
            )
        reached = sum(min(hosts, num) * chance for num, chance in enumerate(self._on_hosts(num_hosts)))
        on_gpu = 1 - comb(allowed - of_gpu, self.routed) / comb(allowed, self.routed)
        return reached / num_hosts, hosts / num_hosts * on_gpu

    def _on_hosts(self, num_hosts: int) -> list[float]:
        """Return the chance that the best experts of all are on 0, 1, 2 ... hosts."""
        each, whole = self.experts // num_hosts, comb(self.experts, self.routed)
        return [
            comb(num_hosts, num)
            * sum((-1) ** left * comb(num, left) * comb((num - left) * each, self.routed) for left in range(num + 1))
            / whole
            for num in range(min(num_hosts, self.routed) + 1)
        ]
