"""What the paper claims, part by part, and the rules that judge it, written before the runs.

`theory` holds the claims about models, algorithms and formulas, `training` those about trained
networks.
"""

from companion.fats.claims import theory, training
from companion.judging.claims import Claims

CLAIMS = Claims("fats", [*theory.CLAIMS_LIST, *training.CLAIMS_LIST])
