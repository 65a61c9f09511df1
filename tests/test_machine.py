"""Threads, cores, the device, and the seed of a first model."""

import subprocess
import sys

import pytest
import torch

from sflkit import checks, machine


def test_environment_bounds_threads(monkeypatch):
    monkeypatch.setenv("SFLKIT_THREADS", "2")
    assert machine.thread_bound() == 2 and machine.cores() == 2
    with pytest.warns(UserWarning) if checks.process_cores() < 8 else monkeypatch.context():
        assert machine.thread_count(8) == 2
    assert machine.thread_count(1) == 1 and machine.thread_count() <= 2
    monkeypatch.delenv("SFLKIT_THREADS")
    assert machine.thread_bound() is None and machine.thread_count() == torch.get_num_threads()
    assert machine.cores() == checks.process_cores() >= 1


@pytest.mark.parametrize("bad", ["0", "-1", "two", "1.5"])
def test_other_values_are_refused(monkeypatch, bad):
    monkeypatch.setenv("SFLKIT_THREADS", bad)
    for call in (machine.thread_count, machine.cores, machine.thread_bound):
        with pytest.raises(ValueError, match=f"SFLKIT_THREADS='{bad}' must be an integer >= 1"):
            call()


def test_device(monkeypatch):
    assert machine.device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert machine.device() == torch.device("cpu")
    with pytest.raises(ValueError, match="device='cuda' but torch sees no GPU"):
        machine.device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert machine.device().type == machine.device("cuda").type == "cuda"
    assert machine.device("cpu").type == "cpu"


def test_torch_is_not_imported_with_it():
    code = "import sys; from sflkit import machine; machine.cores(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False"
