"""One door for what is recorded once and replayed: torch's bookkeeping is then paid once.

`traced` is for a CPU: it notes the operations that a step is made of, below autograd and vmap, and
writes them out as one plain function. `captured` is for a GPU: a CUDA graph of a whole round. Both
hold for the shapes they were made with, and give what the step itself gives. No graph was ever
captured for this version: `captured` was tried on a CPU only, with a replay that calls the round
again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

KEPT = 8  # recordings that a task keeps
_VIEWS = {torch.ops.aten.detach, torch.ops.aten.view, torch.ops.aten._unsafe_view}
_VIEWS |= {torch.ops.aten.expand, torch.ops.aten.alias}
_lock = threading.RLock()  # what is recorded may ask for a recording itself


class Programs:
    """What a task has recorded, by the shapes that it holds for."""

    def __init__(self):
        self._made: dict[tuple, Any] = {}
        self._asked: Counter[tuple] = Counter()

    def get(self, key: tuple, after: int, make: Callable[[], Any]) -> Any:
        """Return what `make` has recorded for `key`; None the first `after` times it is asked for.

        To record costs as much as to compute some times, so that shapes that hardly come back are
        not worth it. When there are `KEPT` recordings, or a thousand shapes, all are forgotten.
        """
        if key not in self._made:
            self._asked[key] += 1
            if self._asked[key] <= after:
                return None
        with _lock:
            if len(self._asked) > 1000 or (key not in self._made and len(self._made) == KEPT):
                self._made.clear()
                self._asked.clear()
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]


def traced(step: Callable[..., None], inputs: Sequence[Tensor]) -> Callable[..., None] | None:
    """Return `step`, which changes its tensors in place, as a function of plain operations.

    It is called with `inputs` once to be noted, which changes them. The answer is None if the step
    uses a tensor that is neither given nor made in it.
    """
    module = make_fx(lambda *tensors: step(*tensors))(*inputs)
    for node in module.graph.nodes:
        if node.op == "get_attr":
            return None
        before = node.args and node.args[0]
        if getattr(node.target, "overloadpacket", None) in _VIEWS and _form(node) == _form(before):
            node.replace_all_uses_with(before)  # the same numbers under another name
    module.graph.eliminate_dead_code()
    module.recompile()
    return module.forward


def _form(node: Any) -> tuple:
    return node.meta["tensor_meta"].shape, node.meta["tensor_meta"].stride


def captures(device: torch.device) -> bool:
    """Return whether rounds on `device` are captured."""
    return device.type == "cuda"


def captured(run: Callable[[], None]) -> Callable[[], None]:
    """Return what repeats `run` on the same memory: a CUDA graph, captured after a warm-up.

    Nothing in `run` may wait for the GPU. Its tensors must stay where they are, and what it reads
    from Python stays as it is now.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay
