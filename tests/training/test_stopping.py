"""Ctrl-C on a terminal: a run that is stopped is tested and saved, and goes on as if nothing had happened."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lightning.pytorch import Trainer
from small_runs import same_weights

from steerable.reporting.run_records import read_runs
from steerable.training.running.stopping import StopOnRequest
from steerable.training.trained_networks.trained_model import TrainedModel

EPOCHS = 20


def command(folder: Path) -> list[str]:
    model = ("-mdepth=8", "-mcopies=1", "-mhead=invariant")
    length = ("--epochs", str(EPOCHS), "--labels", "100", "--batch-size", "10", "--checkpoint-seconds", "0")
    where = ("--out", str(folder), "--accelerator", "cpu", "--no-progress")
    return [sys.executable, "-m", "steerable.cli", "train", "digits", "--recipe", "demo", *model, *length, *where]


def test_a_run_that_is_stopped_has_results_and_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    run, terminal = tmp_path / "run", pty.openpty()
    process = subprocess.Popen(
        command(run), stdin=terminal[1], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while process.poll() is None and not (run / "checkpoints" / "previous.ckpt").exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    for end in terminal:
        os.close(end)
    assert process.returncode == 0, err
    results = json.loads((run / "results.json").read_text())
    assert results["stopped"] is True
    assert 2 <= results["epochs"] < EPOCHS
    assert f"Stopping in epoch {results['epochs']} of {EPOCHS}: what has been learnt so far will be tested and" in out
    assert f"The run was stopped in epoch {results['epochs']}. The same command continues the training." in out
    assert (run / "report.html").is_file()
    assert f"it was stopped in epoch {results['epochs']} of {EPOCHS}" in read_runs([run])[0].notes[0]
    assert len(TrainedModel.load(run).classes) == 10
    for folder in (run, tmp_path / "whole"):
        subprocess.run(command(folder), check=True, capture_output=True, stdin=subprocess.DEVNULL)
        ended = json.loads((folder / "results.json").read_text())
        assert (ended["stopped"], ended["epochs"]) == (False, EPOCHS)
    assert same_weights(run, tmp_path / "whole")


@pytest.fixture
def trainer() -> Trainer:
    return Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, max_epochs=3)


def test_the_second_interrupt_is_one(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    before, said = signal.getsignal(signal.SIGINT), list[str]()
    stopping = StopOnRequest(said.append)
    with stopping.listening(trainer):
        signal.raise_signal(signal.SIGINT)
        assert stopping.requested
        stopping.on_train_batch_end(trainer, None)  # type: ignore[arg-type]
        stopping.on_train_epoch_end(trainer, None)  # type: ignore[arg-type]
        assert trainer.should_stop
        assert len(said) == 1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_without_a_terminal_an_interrupt_is_what_it_was(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(KeyboardInterrupt), StopOnRequest().listening(trainer):
        signal.raise_signal(signal.SIGINT)
