from rule_cases import EPOCH_FLAGS, EPOCHS, MS, US, WORK, every, span

from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.records.schema import Loader


def test_names_what_a_dataset_does_before_its_first_sample(judge):
    finding = judge("slow-epoch-start", EPOCHS, flags=EPOCH_FLAGS, loader=Loader(num_workers=0))
    assert finding.evidence["first_batch_per_epoch_ns"] == 99_900 * US
    assert span(finding) == (0, 9 * 99_900 * US // 100)
    assert finding.severity is Severity.CRITICAL


def test_with_workers_it_is_their_start(judge):
    run = {"flags": EPOCH_FLAGS, "loader": Loader(num_workers=1)}
    assert judge("slow-epoch-start", EPOCHS, **run) is None


def test_a_sampler_of_the_programs_own_is_named_also_where_workers_stay(judge):
    loader = Loader(num_workers=2, persistent_workers=True, sampler="ByRarity", dataset_kind="map")
    finding = judge("slow-epoch-start", EPOCHS, flags=EPOCH_FLAGS, loader=loader)
    assert "ByRarity.__iter__" in finding.advice
    assert finding.where[0].name == "ByRarity"
    assert finding.saving_ns.low == round(finding.saving_ns.high / 2)
    anew = Loader(num_workers=2, persistent_workers=False, sampler="ByRarity", dataset_kind="map")
    assert judge("slow-epoch-start", EPOCHS, flags=EPOCH_FLAGS, loader=anew) is None


def test_a_first_batch_that_workers_make_is_not_its_samplers(judge):
    loader = Loader(num_workers=2, persistent_workers=True, sampler="ByRarity", dataset_kind="map")
    run = {"flags": EPOCH_FLAGS, "loader": loader}

    def waited_for_workers(made_ns):
        parts = {"data_wait/workers": every(10, made_ns)}
        return judge("slow-epoch-start", EPOCHS, parts=parts, **run)

    assert waited_for_workers(99_800 * US) is None
    half = waited_for_workers(50 * MS)
    assert half.saving_ns.high == 9 * 49_900 * US // 100
    assert "the training process works for 49.9 ms" in half.title
    # Not measured, such as with pinned memory: a batch takes at most as many steps as workers.
    step_ns = half.evidence["step_ns"]
    unknown = judge("slow-epoch-start", EPOCHS, **run)
    assert unknown.saving_ns.high == 9 * (99_900 * US - 2 * step_ns) // 100


def test_is_silent_where_epochs_begin_as_they_go_on(judge):
    run = {"flags": EPOCH_FLAGS, "loader": Loader(num_workers=0)}
    assert judge("slow-epoch-start", {**WORK, "data_wait": 100 * US}, **run) is None


def test_abstains_without_epochs(judge):
    assert isinstance(judge("slow-epoch-start", WORK), Abstained)
