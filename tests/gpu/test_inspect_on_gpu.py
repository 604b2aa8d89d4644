"""On a CUDA or ROCm device: ten known host syncs are found, and none in a clean loop."""

import torch
from gpu_runs import ON_GPU
from inspected import inspected
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss
from lightning_gpuprof.callbacks.progress_bar import DeferredProgressBar

pytestmark = ON_GPU


def rows(folder, model, *callbacks):
    return inspected(folder, model, *callbacks, accelerator="gpu", devices=1).sites


def test_ten_known_syncs_are_ten_rows_with_their_lines_and_owners(tmp_path, seeded_syncs):
    found = rows(tmp_path, seeded_syncs.Seeded(), seeded_syncs.GradientWatcher())
    assert sorted((site.line, site.owner) for site in found) == seeded_syncs.expected()
    assert not any(site.would_sync for site in found)
    assert all(site.count == 3 for site in found if site.owner == "callback:GradientWatcher")
    timed = [site for site in found if site.operation in ("item", "tolist", "synchronize")]
    assert timed
    assert all(site.blocked_ns for site in timed)
    assert torch.cuda.get_sync_debug_mode() == 0


def test_a_number_that_is_logged_waits_once_a_call_and_one_made_there_does_not(tmp_path):
    class Numbers(BoringModel):
        def training_step(self, batch, batch_idx):
            self.log("rate", 0.5)
            self.log("made there", torch.full((), 0.5, device=self.device))
            return super().training_step(batch, batch_idx)

    [site] = rows(tmp_path, Numbers())
    assert (site.owner, site.operation, site.count) == ("lightning", "pageable copy", 3)
    assert site.source == 'self.log("rate", 0.5)'
    assert site.blocked_ns


def test_a_clean_loop_has_no_rows(tmp_path, seeded_syncs):
    assert rows(tmp_path, seeded_syncs.Clean()) == ()


def test_deferred_values_make_no_row_even_at_a_windows_end(tmp_path):
    mine = [DeferredLoss(window=2), DeferredProgressBar()]
    assert rows(tmp_path, BoringModel(), *mine) == ()
