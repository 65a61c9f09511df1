"""What the paper's trained networks are said to do."""

from sflkit.results.claims import Claim

CLAIMS_LIST: list[Claim] = []
