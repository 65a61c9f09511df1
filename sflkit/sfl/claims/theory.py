"""Claims of notebooks 10, 11 and 14: streams, discrepancy bounds, and the convergence theory."""

from sflkit.results.claims import Claim

CLAIMS_LIST: list[Claim] = []
