"""What a compiled network checks before every call: this is time in which a GPU waits."""

from __future__ import annotations

import logging

import pytest
import torch

from steerable import models

GUARDS = "torch._dynamo.guards.__guards"


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_no_array_of_a_type_or_plan_is_looked_at(training: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A guard on a numpy array makes a tensor of it on each call; a hundred of them cost a millisecond or two."""
    torch._dynamo.reset()
    network = models.resnet(8, 1).train(training)
    torch._logging.set_logs(guards=True)
    log = logging.getLogger(GUARDS)
    log.addHandler(caplog.handler)
    try:
        with caplog.at_level(logging.DEBUG, logger=GUARDS):
            torch.compile(network, fullgraph=True, backend="eager")(torch.randn(2, 3, 8, 8))
    finally:
        log.removeHandler(caplog.handler)
        torch._logging.set_logs()
        torch._dynamo.reset()
    guards = caplog.text.partition("GuardManager")[2]
    assert "TENSOR_MATCH" in guards
    assert "from_numpy(" not in guards
