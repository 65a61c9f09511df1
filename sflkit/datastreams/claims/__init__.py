"""The claims of the paper, declared before the runs that judge them (`sflkit.results.claims`).

`theory` holds those of notebooks 20 and 23, `training` those of notebooks 21 and 22.
"""

from sflkit.datastreams.claims import theory, training
from sflkit.results.claims import Claims

CLAIMS = Claims("datastreams", [*theory.CLAIMS_LIST, *training.CLAIMS_LIST])
