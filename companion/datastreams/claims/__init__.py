"""The claims of the paper, declared before the runs that judge them (`companion.judging.claims`).

`theory` holds those of notebooks 20 and 23, `training` those of notebooks 21 and 22.
"""

from companion.datastreams.claims import theory, training
from companion.judging.claims import Claims

CLAIMS = Claims("datastreams", [*theory.CLAIMS_LIST, *training.CLAIMS_LIST])
