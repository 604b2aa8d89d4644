from lightning_gpuprof.views.documents.what_if import Claim, without

PHASES = {"forward": 40, "data_wait": 30, "callbacks": 20}


def saved(*claims):
    found = without(claims, step_ns=100, phase_ns=PHASES)
    return found.saving_low_ns, found.saving_high_ns


def test_claims_in_different_phases_add_up():
    assert saved(Claim("a", ("forward",), 10, 20), Claim("b", ("data_wait",), 5, 30)) == (15, 50)


def test_claims_in_one_phase_never_save_more_than_it_has():
    assert saved(Claim("a", ("forward",), 10, 30), Claim("b", ("forward",), 5, 30)) == (10, 40)


def test_two_callbacks_are_two_places():
    a, b = Claim("c", ("callbacks/A",), 8, 10), Claim("c", ("callbacks/B",), 4, 6)
    assert saved(a, b) == (12, 16)


def test_a_claim_without_a_place_overlaps_the_compute_phases():
    assert saved(Claim("a", (), 10, 30), Claim("b", ("forward",), 10, 30)) == (10, 40)


def test_claims_are_chained_through_what_they_share():
    chain = [
        Claim("a", ("forward",), 10, 10),
        Claim("b", ("data_wait",), 10, 10),
        Claim("c", ("forward", "data_wait"), 10, 60),
    ]
    assert saved(*chain) == (10, 70)


def test_nothing_removed_saves_nothing():
    assert saved() == (0, 0)
