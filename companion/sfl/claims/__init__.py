"""The claims of the paper, declared before the runs that judge them (`companion.judging.claims`).

`theory` holds those of notebooks 10, 11 and 14, `training` those of notebooks 12, 13 and 15.
"""

from companion.judging.claims import Claims
from companion.sfl.claims import theory, training

CLAIMS = Claims("sfl", [*theory.CLAIMS_LIST, *training.CLAIMS_LIST])
