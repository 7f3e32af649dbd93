"""The laws on a GPU: where there is none, this file is skipped."""

from __future__ import annotations

import copy

import pytest
import torch
from cases import CASES, GROUPS, Case, built, fields, small_net
from test_conformance import assert_commutes, relative_error

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

D4 = GROUPS["D4"]
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@every_case
def test_commutes_and_agrees_with_the_cpu(case: Case):
    module = built(case, D4)
    for size in case.sizes:
        xs = fields(module, size)
        expected = module(*xs)
        twin = copy.deepcopy(module).cuda()
        with torch.no_grad():
            assert relative_error(twin(*[x.cuda() for x in xs]).cpu(), expected) <= 1e-12
            assert_commutes(twin, [x.cuda() for x in xs])


@every_case
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_runs_in_training(case: Case, dtype: torch.dtype):
    module = built(case, D4, torch.float32).train()
    xs = [x.cuda().requires_grad_() for x in fields(module, case.sizes[0], torch.float32)]
    module = module.cuda()
    with torch.autocast("cuda", dtype=dtype):
        y = module(*[x.clone() for x in xs])
    assert y.dtype == dtype or not case.bfloat16_in_autocast
    y.float().sum().backward()


# torch says that this mode may miss some synchronisations; what it finds is an error all the same.
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype feature")
def test_forward_and_backward_do_not_wait_for_the_device():
    net = small_net(D4).cuda().train()
    x = torch.randn(4, 3, 8, 8, device="cuda")
    net(x).sum().backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        net(x).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
