"""What the paper claims, part by part, and the rules that judge it, written before the runs.

Every claim is a sentence of the paper, taken apart into what one number decides. The parts marked
"beyond" are questions of ours and never count.
"""

from sflkit.osafl.claims.algorithms import ALGORITHMS
from sflkit.osafl.claims.dataset1 import DATASET_1
from sflkit.osafl.claims.dataset2 import DATASET_2
from sflkit.osafl.claims.resources import RESOURCES
from sflkit.osafl.claims.scores import SCORES
from sflkit.osafl.claims.static_vs_streaming import STATIC_VS_STREAMING
from sflkit.osafl.claims.video import VIDEO
from sflkit.results.claims import Claims

CLAIMS = Claims(
    "osafl",
    [
        *VIDEO,
        *RESOURCES,
        *SCORES,
        *STATIC_VS_STREAMING,
        *ALGORITHMS,
        *DATASET_1,
        *DATASET_2,
    ],
)
