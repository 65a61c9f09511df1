"""Clients in parallel: threads, settings of the caller, forked children."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import torch

from sflkit.federated import evaluate, local_sgd
from sflkit.federated.workers import for_each_client
from tests.federated.federated_cases import make


def test_thread_settings_of_the_caller_are_unchanged(monkeypatch):
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


def test_workers_have_one_intra_op_thread():
    seen = for_each_client(
        lambda _: torch.get_num_threads(), list(range(6)), 3, torch.device("cpu")
    )
    assert seen == [1] * 6
    assert for_each_client(lambda _: torch.get_num_threads(), [0, 1], 4, torch.device("cpu")) == [
        2,
        2,
    ]  # four threads, two clients


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
