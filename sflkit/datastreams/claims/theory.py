"""Claims of notebooks 20 and 23: the bound psi, its minimiser, and the theorems behind it."""

from sflkit.results.claims import Claim

CLAIMS_LIST: list[Claim] = []
