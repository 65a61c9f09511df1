"""The claims of OSAFL that notebooks 33 and 34 judge by training."""

from sflkit.osafl.claims.algorithms import ALGORITHMS
from sflkit.osafl.claims.dataset1 import DATASET_1
from sflkit.osafl.claims.dataset2 import DATASET_2

CLAIMS_LIST = [*ALGORITHMS, *DATASET_1, *DATASET_2]
