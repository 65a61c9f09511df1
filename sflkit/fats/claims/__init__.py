"""What FATS claims, artefact by artefact: theory in `theory`, figures and Table 1 in `training`."""

from sflkit.fats.claims import training
from sflkit.results.claims import Claims

CLAIMS = Claims("fats", training.CLAIMS_LIST)
