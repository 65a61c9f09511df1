"""What the paper claims, part by part, and the rules that judge it, written before the runs.

Every claim is a sentence of the paper, taken apart into what one number decides. The parts marked
"beyond" are questions of ours and never count.
"""

from companion.judging.claims import Claims
from companion.osafl.claims.algorithms import ALGORITHMS
from companion.osafl.claims.dataset1 import DATASET_1
from companion.osafl.claims.dataset2 import DATASET_2
from companion.osafl.claims.resources import RESOURCES
from companion.osafl.claims.scores import SCORES
from companion.osafl.claims.static_vs_streaming import STATIC_VS_STREAMING
from companion.osafl.claims.video import VIDEO

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
