"""All claims of OSAFL, by artefact."""

from sflkit.osafl.claims.training import CLAIMS_LIST
from sflkit.results.claims import Claims

CLAIMS = Claims("osafl", CLAIMS_LIST)
