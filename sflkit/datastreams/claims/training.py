"""Claims of notebooks 21 and 22: what training shows."""

from sflkit.results.claims import Claim

CLAIMS_LIST: list[Claim] = []
