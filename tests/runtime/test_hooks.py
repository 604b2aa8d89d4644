from types import SimpleNamespace

import pytest

from lightning_gpuprof.runtime.hooks import HookSet, dispatcher_of

HOOK = "on_train_batch_end"


@pytest.fixture
def host():
    return SimpleNamespace()


def call(host, times):
    for number in range(1, times + 1):
        hook = getattr(host, HOOK)
        if hook is not None:
            hook(number)


def test_a_spaced_method_is_called_with_the_last_of_so_many_calls(host):
    always, third, fifth = [], [], []
    dispatcher_of(host).add(HOOK, always.append)
    calls = dispatcher_of(host).periodic
    calls.add(lambda: third.append(calls.batches), 3)
    calls.add(lambda: fifth.append(calls.batches), 5)

    call(host, 11)

    assert always == list(range(1, 12))
    assert third == [3, 6, 9]
    assert fifth == [5, 10]


def test_hooks_added_together_call_once_each_until_they_are_dropped(host):
    begun, ended = [], []
    hooks = HookSet({"on_train_batch_start": begun.append, HOOK: ended.append})
    hooks.add(dispatcher_of(host))
    hooks.add(dispatcher_of(host))

    host.on_train_batch_start(1)
    call(host, 1)

    assert (begun, ended) == ([1], [1])
    assert (hooks.drop(), hooks.drop()) == (True, False)
    assert (host.on_train_batch_start, host.on_train_batch_end) == (None, None)


def counted(host, calls, batches):
    """Run batches that somebody else counts; return those that had a hook."""
    with_hook = []
    for number in range(1, batches + 1):
        calls.left -= 1
        if calls.left == 0:
            calls.run_due()
        if getattr(host, HOOK, None) is not None:
            with_hook.append(number)
            getattr(host, HOOK)(number)
    return with_hook


def test_where_batches_are_counted_anyway_there_is_no_hook(host):
    calls, third, fifth = dispatcher_of(host).let_caller_count(), [], []
    calls.add(lambda: third.append(calls.batches), 3)
    calls.add(lambda: fifth.append(calls.batches), 5)

    assert counted(host, calls, 11) == []
    assert third == [3, 6, 9]
    assert fifth == [5, 10]
