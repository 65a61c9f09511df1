"""Claims of notebooks 12, 13 and 15: what training shows."""

from sflkit.results.claims import Claim

CLAIMS_LIST: list[Claim] = []
