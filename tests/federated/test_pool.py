"""The pool: clients do not depend on one another or on threads, and networks pool before ReLU."""

import copy
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sflkit import models
from sflkit.federated import Task, evaluate, local_sgd
from sflkit.federated.workers import for_each_client
from tests.federated.federated_cases import make, reference


def test_rows_of_params_equal_separate_calls():
    task, w, batches = make("lenet", [[5, 5], [5, 5]])
    rows = torch.stack([w, task.init(9)])
    both = local_sgd(task, rows, batches, 0.1, backend="pool", threads=2)
    for k in range(2):
        assert torch.equal(
            both[k], local_sgd(task, rows[k], [batches[k]], 0.1, backend="pool", threads=1)[0]
        )


class Last(nn.Module):
    """The last state of an LSTM."""

    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(3, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


def test_recurrent_layers_train_in_the_pool_only():
    task, batches = Task(Last()), [[(torch.randn(4, 6, 3), torch.tensor([0, 1, 1, 0]))] * 2] * 2
    w = task.init(0)
    got = local_sgd(task, w, batches, 0.1)[1]
    torch.testing.assert_close(got, reference(task, w, batches[1], 0.1), atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match="recurrent"):
        local_sgd(task, w, batches, 0.1, backend="stacked")


def test_gradients_of_the_round_before_do_not_stay():
    task, w, batches = make("mlp", [[6, 5]])
    local_sgd(task, w, batches, 0.1, backend="pool", threads=1)
    with task.replica(torch.device("cpu")) as replica:
        assert all(p.grad is None for p in replica.params)
        for p in replica.params:  # as an error between two passes would leave them
            p.grad = torch.ones_like(p)
    got = local_sgd(task, w, batches, 0.1, backend="pool", threads=1)
    torch.testing.assert_close(got[0], reference(task, w, batches[0], 0.1), atol=1e-6, rtol=0)


def test_an_error_of_the_model_is_raised():
    class Broken(nn.Linear):
        def forward(self, x):
            if torch.is_grad_enabled():  # not yet when the shapes are looked at
                raise RuntimeError("broken on purpose")
            return super().forward(x)

    task = Task(nn.Sequential(nn.Linear(12, 4), Broken(4, 4)))
    with pytest.raises(RuntimeError, match="broken on purpose"):
        local_sgd(task, task.init(0), make("mlp", [[6], [5]])[2], 0.1)


@pytest.mark.parametrize("backend", ["pool", "stacked"])
def test_trains_where_the_caller_has_switched_gradients_off(backend):
    task, w, batches = make("mlp", [[6, 5], [4]])
    want = local_sgd(task, w, batches, 0.1, backend=backend, threads=1)
    with torch.no_grad():
        assert torch.equal(local_sgd(task, w, batches, 0.1, backend=backend, threads=1), want)


def test_thread_settings_of_the_caller_are_unchanged():
    task, w, batches = make("mlp", [[6], [6], [6]])
    before = torch.get_num_threads()
    x, y = batches[0][0]
    for threads in (1, 2, 3):
        for backend in ("pool", "stacked"):
            local_sgd(task, w, batches, 0.1, backend=backend, threads=threads)
        evaluate(task, w, x, y, threads=threads, batch_size=2)
        assert torch.get_num_threads() == before
        with ThreadPoolExecutor(1) as fresh:  # what a thread started later finds
            assert fresh.submit(torch.get_num_threads).result() == before


@pytest.mark.parametrize(("clients", "threads", "each"), [(6, 3, 1), (2, 4, 2)])
def test_workers_share_the_threads(clients, threads, each):
    count = lambda _: torch.get_num_threads()  # noqa: E731
    found = for_each_client(count, list(range(clients)), threads, torch.device("cpu"))
    assert found == [each] * clients


def test_works_in_a_forked_child():
    code = (
        "import os, torch\nfrom sflkit import models\n"
        "from sflkit.federated import Task, local_sgd\n"
        "t = Task(models.create('linear', input_shape=(3,), n_classes=2)); w = t.init(0)\n"
        "b = [[(torch.ones(2, 3), torch.tensor([0, 1]))]] * 4\n"
        "def go(): return local_sgd(t, w, b, 0.1, backend='pool', threads=2).sum().item()\n"
        "first = go(); pid = os.fork()\n"
        "if pid == 0: os._exit(0 if go() == first else 3)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
    )
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], timeout=60, capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr


NETWORKS = {
    "lenet": dict(input_shape=(1, 28, 28), n_classes=5),
    "cnn": dict(input_shape=(1, 16, 16), n_classes=5, hidden=8),
    "vgg16": dict(input_shape=(3, 32, 32), n_classes=5, width=0.125),
    "osafl_cnn": dict(input_shape=(3168,), n_classes=5, hidden=8),
    "osafl_squeezenet1": dict(input_shape=(3168,), n_classes=5),
}


def relu_first(module):
    """Put each ReLU before the pooling in front of it, as in the papers; return how many."""
    moved = 0
    for name, child in list(module.named_children()):
        if type(child) is nn.Sequential:
            layers = list(child)
            for i in range(len(layers) - 1):
                if isinstance(layers[i], nn.MaxPool2d) and isinstance(layers[i + 1], nn.ReLU):
                    layers[i], layers[i + 1], moved = layers[i + 1], layers[i], moved + 1
            setattr(module, name, nn.Sequential(*layers))
        moved += relu_first(getattr(module, name))
    return moved


@pytest.mark.parametrize("name", NETWORKS)
def test_pooling_stands_before_relu_with_the_same_bits(name):
    # Constant and zero images make all windows ties, in which only the first place may get the
    # gradient.
    shape = NETWORKS[name]["input_shape"]
    x = torch.randn(8, *shape, generator=torch.Generator().manual_seed(0))
    x[:2], x[2:4] = 0.0, 1.0
    y = torch.arange(8) % 5
    ours = nn.Sequential(models.create(name, **NETWORKS[name]))
    papers = copy.deepcopy(ours)
    assert (
        relu_first(papers)
        == {"lenet": 2, "cnn": 2, "vgg16": 5, "osafl_cnn": 2, "osafl_squeezenet1": 1}[name]
    )
    gradients = []
    for model in (ours, papers):
        F.cross_entropy(model(x), y).backward()
        gradients.append([p.grad for p in model.parameters()])
    assert torch.equal(ours(x), papers(x))
    for a, b in zip(*gradients, strict=True):
        assert torch.equal(a, b)
    assert max(a.abs().max() for a in gradients[0]) > 0
