"""Facts that are used as they were recorded."""

from collections.abc import Iterable
from dataclasses import dataclass

from lightning_gpuprof.records import facts
from lightning_gpuprof.records.lines import ModuleCalls, OutsideLines
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Note, ProbeDisabled, Scalars, SyncSite


@dataclass(frozen=True, kw_only=True)
class RecordedFacts:
    """Notes and single facts of a session; None if a fact was not recorded."""

    notes: tuple[Note, ...] = ()
    scalars: tuple[Scalars, ...] = ()
    module_calls: ModuleCalls | None = None
    """None if no module was named."""
    outside_lines: OutsideLines | None = None
    """Samples of the training thread between epochs; None if there were none."""
    anomaly_mode: facts.AnomalyMode | None = None
    """None if it was off, or was not recorded."""
    unused_gradients: facts.UnusedGradients | None = None
    batch_sizes: tuple[facts.BatchSizes, ...] = ()
    """Of the first batches on every rank that measured them, this rank's first."""
    embedding_tables: tuple[facts.EmbeddingTable, ...] = ()
    """Large tables with dense gradients."""
    stream_batches: facts.StreamBatches | None = None
    """None unless the loader has several workers and an `IterableDataset`."""
    stage_work: facts.StageWork | None = None
    """None unless a data module has hooks that run before each stage."""
    synced_logs: tuple[str, ...] = ()
    """Names of the values that `self.log` exchanges between ranks in every step."""
    cpu_quota: facts.CpuQuota | None = None
    core_wait: facts.CoreWait | None = None
    io_pressure: facts.IoPressure | None = None
    metrics: tuple[facts.MetricState, ...] = ()
    """Metrics that keep all values, the largest first."""
    page_faults: facts.PageFaults | None = None
    kept_predictions: facts.KeptPredictions | None = None
    predict_outputs: facts.PredictOutputs | None = None
    """None unless `outputs=True` was set."""
    dataset_objects: facts.DatasetObjects | None = None
    """The longest collection of Python objects in the dataset of a loader with workers."""
    sync_sites: tuple[SyncSite, ...] = ()
    """Lines that make the host wait for the device, from an inspection."""
    syncs_watched: bool = False
    """Whether an inspection watched steps for host syncs."""
    probe_failures: tuple[ProbeDisabled, ...] = ()
    """Recorders of all ranks that failed and were switched off."""

    @property
    def busy_frac(self) -> float:
        """The share of training in which its thread waited for a core; 0 if that was usual."""
        return 0.0 if self.core_wait is None else self.core_wait.busy_frac


def recorded_facts(session: Session, same_on_ranks: Iterable[Session]) -> RecordedFacts:
    """Collect a session's facts; `same_on_ranks` is the session on every rank that has it."""
    anomaly, synced = session.last(facts.AnomalyMode), session.last(facts.SyncedLogs)
    return RecordedFacts(
        notes=tuple(session.all(Note)),
        scalars=tuple(session.all(Scalars)),
        module_calls=session.last(ModuleCalls),
        outside_lines=session.last(OutsideLines),
        anomaly_mode=anomaly if anomaly is not None and anomaly.on else None,
        unused_gradients=session.last(facts.UnusedGradients),
        batch_sizes=tuple(
            sizes
            for of_rank in (session, *(other for other in same_on_ranks if other is not session))
            if (sizes := of_rank.last(facts.BatchSizes)) is not None
        ),
        embedding_tables=tables.tables if (tables := session.last(facts.EmbeddingTables)) else (),
        stream_batches=session.last(facts.StreamBatches),
        stage_work=session.last(facts.StageWork),
        synced_logs=() if synced is None else synced.names,
        cpu_quota=session.last(facts.CpuQuota),
        core_wait=session.last(facts.CoreWait),
        io_pressure=session.last(facts.IoPressure),
        metrics=metrics.metrics if (metrics := session.last(facts.MetricStates)) else (),
        page_faults=session.last(facts.PageFaults),
        kept_predictions=session.last(facts.KeptPredictions),
        predict_outputs=session.last(facts.PredictOutputs),
        dataset_objects=session.last(facts.DatasetObjects),
        sync_sites=tuple(session.all(SyncSite)),
        syncs_watched=any(watched.steps for watched in session.all(facts.SyncSteps)),
        probe_failures=tuple(
            failure for on_rank in same_on_ranks for failure in on_rank.all(ProbeDisabled)
        ),
    )
