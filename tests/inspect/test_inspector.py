"""Host syncs by line and owner: ten known ones are found, and nothing is found in a clean loop."""

from pathlib import Path

import pytest
import torch
from inspected import inspected
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.plugins import MixedPrecision

from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss
from lightning_gpuprof.inspect.advice import advice
from lightning_gpuprof.inspect.inspector import InspectionDone
from lightning_gpuprof.runtime.places import shown_path


def test_ten_known_syncs_are_ten_rows_with_their_lines_and_owners(tmp_path, seeded_syncs):
    watcher = seeded_syncs.GradientWatcher()
    options = {"logger": CSVLogger(tmp_path), "enable_progress_bar": True}
    found = inspected(tmp_path, seeded_syncs.Seeded(), watcher, **options).sites
    assert sorted((site.line, site.owner) for site in found) == seeded_syncs.expected()
    assert len(found) == 10
    assert {site.file for site in found} == {shown_path(seeded_syncs.__file__)}
    lines = Path(seeded_syncs.__file__).read_text(encoding="utf-8").splitlines()
    assert {site.source for site in found} <= {line.strip() for line in lines}
    assert {site.operation for site in found} == {
        "item", "tolist", "print", "bool", "boolean mask", "pageable copy", "synchronize",
    }  # fmt: skip
    assert all(site.steps_watched == 3 and site.would_sync for site in found)
    assert all(site.count == 3 for site in found if site.owner != "lightning")
    assert all(site.blocked_ns is None for site in found), "nothing blocks on a CPU"
    by_owner = {site.owner: site for site in found}
    assert by_owner["callback:GradientWatcher"].phase == "callbacks"
    assert by_owner["metric"].phase == "forward"
    assert by_owner["metric"].function == "update"


def test_waits_for_a_stream_and_an_event_are_told_from_those_for_the_device(tmp_path, monkeypatch):
    for owner in (torch.cuda.Stream, torch.cuda.Event):
        monkeypatch.setattr(owner, "synchronize", lambda self: None)

    class Waiting(BoringModel):
        def training_step(self, batch, batch_idx):
            torch.cpu.synchronize()
            torch.cuda.Stream.synchronize(None)
            torch.cuda.Event.synchronize(None)
            return super().training_step(batch, batch_idx)

    sites = sorted(inspected(tmp_path, Waiting()).sites, key=lambda site: site.line)
    waits = ["synchronize", "stream.synchronize", "event.synchronize"]
    assert [site.operation for site in sites] == waits
    assert "current_stream().synchronize()" in advice(sites[0])
    assert "event.query()" in advice(sites[1])


def test_a_gradient_scalers_read_of_overflow_is_lightnings(tmp_path):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    precision = MixedPrecision("16-mixed", "cpu", scaler=scaler)
    [site] = inspected(tmp_path, BoringModel(), plugins=[precision]).sites
    assert (site.owner, site.operation, site.phase) == ("lightning", "item", "optimizer_step")
    assert site.count == 3
    assert site.file.endswith("amp.py")
    assert "bf16-mixed" in advice(site)


def test_a_clean_loop_has_no_rows(tmp_path, seeded_syncs):
    found = inspected(tmp_path, seeded_syncs.Clean(), enable_progress_bar=True)
    assert (found.sites, found.waste) == ((), ())


def test_a_value_logged_each_step_is_lightnings_at_the_line_of_the_log_call(tmp_path, seeded_syncs):
    options = {"logger": CSVLogger(tmp_path), "log_every_n_steps": 1}
    [site] = inspected(tmp_path, seeded_syncs.Clean(), **options).sites
    assert (site.owner, site.phase, site.count) == ("lightning", "logging", 3)
    assert site.source == 'self.log("loss", loss)'


def test_a_tensor_handed_to_a_logger_is_the_loggers_at_the_users_line(tmp_path):
    class Model(BoringModel):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)["loss"]
            self.logger.log_metrics({"loss": loss.detach()}, batch_idx)
            return loss

    [site] = inspected(tmp_path, Model(), logger=TensorBoardLogger(tmp_path)).sites
    assert (site.owner, site.phase, site.count) == ("logger:TensorBoardLogger", "logging", 3)
    assert site.source == 'self.logger.log_metrics({"loss": loss.detach()}, batch_idx)'


@pytest.fixture
def logging(tmp_path):
    """Return the syncs of a model that logs so in each step."""

    def found(logs, **options):
        class Model(BoringModel):
            def training_step(self, batch, batch_idx):
                logs(self)
                return super().training_step(batch, batch_idx)

        return inspected(tmp_path, Model(), **options).sites

    return found


@pytest.mark.parametrize("number", [0.5, 3, True], ids=str)
def test_each_number_that_is_logged_would_wait_at_its_line(logging, number):
    [site] = logging(lambda module: module.log("rate", number))
    assert (site.owner, site.operation, site.count) == ("lightning", "pageable copy", 3)
    assert site.source == '[site] = logging(lambda module: module.log("rate", number))'
    assert "torch.full" in advice(site)
    assert "DeferredLoss" not in advice(site), "no loss is read"


def test_a_number_that_the_progress_bar_reads_again_has_both_advices(logging):
    [site] = logging(lambda m: m.log("rate", 0.5, prog_bar=True), enable_progress_bar=True)
    assert sorted(site.operation.split(", ")) == ["item", "pageable copy"]
    assert "torch.full" in advice(site)
    assert "DeferredProgressBar" in advice(site)


def test_a_value_that_the_device_made_itself_waits_for_nothing(logging):
    assert logging(lambda m: m.log("rate", torch.full((), 0.5, device=m.device))) == ()


def test_deferred_loss_makes_no_sync(tmp_path):
    assert inspected(tmp_path, BoringModel(), DeferredLoss(window=2)).sites == ()


def test_syncs_are_watched_first_and_nothing_is_left_when_it_ends(tmp_path):
    depths = []

    class Model(BoringModel):
        def training_step(self, batch, batch_idx):
            depths.append(torch._C._len_torch_dispatch_stack())
            return super().training_step(batch, batch_idx)

    model, backward = Model(), torch.autograd.backward
    found = inspected(tmp_path, model, steps=2)
    assert depths == [0, 1, 1, 0, 0]
    assert (found.sync_steps, found.work_steps) == (2, 2)
    assert torch.autograd.backward is backward
    assert "log" not in vars(model)


def test_an_error_in_an_inspected_step_puts_everything_back(tmp_path):
    class Broken(BoringModel):
        def training_step(self, batch, batch_idx):
            if batch_idx == 2:
                raise RuntimeError("broken")
            return super().training_step(batch, batch_idx)

    synchronize = torch.cuda.synchronize
    with pytest.raises(RuntimeError, match="broken"):
        inspected(tmp_path, Broken())
    assert torch._C._len_torch_dispatch_stack() == 0
    assert torch.cuda.synchronize is synchronize


def test_no_exception_handler_of_the_script_stops_the_end():
    assert not issubclass(InspectionDone, Exception)
