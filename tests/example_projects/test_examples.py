"""The optimised version of an example must still compute the same thing."""

import numpy as np
import pytest
import torch
import yaml
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader


def test_whole_episodes_give_what_moments_in_a_loop_gave(example):
    example("dreamer_rssm")
    from batched import BatchedWorldModel
    from pendulum import episodes
    from rssm import WorldModel

    slow, fast = WorldModel(), BatchedWorldModel()
    fast.load_state_dict(slow.state_dict())
    batch = episodes(3)[:]

    torch.manual_seed(0)
    expected = slow.training_step(batch, 0)
    torch.manual_seed(0)
    found = fast.training_step(batch, 0)

    torch.testing.assert_close(found, expected)
    assert fast.epoch_sums() == pytest.approx(slow.epoch_sums(), rel=1e-4)


def test_fused_attention_computes_what_attention_by_head_does(example):
    example("inference_ab")
    from attention import AttentionByHead, FusedAttention

    by_head = AttentionByHead(width=32, heads=4)
    tokens = torch.randn(2, 5, 32)

    torch.testing.assert_close(FusedAttention(by_head)(tokens), by_head(tokens))


def test_walks_as_arrays_follow_the_same_rules_as_single_walks(example):
    example("kg_rollout")
    from graph import HOPS, Graph, Walk
    from policy import Policy
    from vectorised import VectorisedRollouts

    graph = Graph.random()
    rollouts = VectorisedRollouts(Policy(), batches=1, walks=20)
    seen = rollouts.collect(graph, np.random.default_rng(3))

    starts = seen.hop == 0
    assert int(starts.sum()) == 20
    assert int(seen.hop.max()) < HOPS
    for entity, answer, hop, relation, returned in zip(
        *(getattr(seen, name).tolist() for name in ("entity", "answer", "hop", "relation")),
        seen.returned.tolist(),
        strict=True,
    ):
        reward, over = Walk(entity, answer, hop).step(graph, relation)
        assert reward <= returned  # a step that finds the answer ends a rewarded walk
        assert over == (reward == 1 or hop == HOPS - 1)


def test_both_yaml_files_differ_only_in_the_padding_and_have_a_valid_section(example):
    from lightning_gpuprof import GpuProfCallback

    folder = example("latent_yaml")
    sides = [(folder / f"{side}.yaml").read_text() for side in ("before", "after")]
    before, after = map(yaml.safe_load, sides)

    assert after["data"].pop("pad_to") == max(before["data"]["lengths"])
    assert before == after
    callback = GpuProfCallback.from_yaml(folder / "before.yaml")
    assert callback.config.wait == before["profiling"]["wait"]


def test_the_fused_block_moves_a_third_of_the_bytes(example, monkeypatch):
    example("roofline_tour")
    import roofs

    monkeypatch.setattr(roofs, "ROWS", 8)
    monkeypatch.setattr(roofs, "COLUMNS", 4)
    from block import block, operations, whole

    apart = sum(one.num_bytes for one in operations())
    together = whole(block, "block")

    assert apart == 3 * together.num_bytes
    assert together.call().shape == (8, 4)


def test_a_world_models_parts_are_timed_and_the_encoders_loop_is_named(example, tmp_path):
    example("dreamer_rssm")
    from pendulum import episodes
    from timers import Dreamer

    from lightning_gpuprof import GpuProfCallback, report

    callback = GpuProfCallback(
        modules=["encoder", "world_model", "dream"], report=False, trace=False, console=False
    )
    trainer = Trainer(
        callbacks=[callback], max_steps=7, accelerator="cpu", logger=CSVLogger(tmp_path),
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Dreamer(), DataLoader(episodes(14), batch_size=2))

    found = report(trainer.log_dir)
    rows = {row["name"]: row for row in found.document.rows("modules")}
    calls = {name: row["calls_per_step"] for name, row in rows.items()}
    assert calls == {"encoder": 16, "world_model": 16, "dream": 1}
    assert all(row["forward_ns"] > 0 for row in rows.values())
    assert rows["encoder"]["backward_ns"] > 0
    advice = {row["name"]: row["advice"] for row in found.document.rows("loops")}
    assert "rssm.py" in advice["encoder"]
    assert advice["encoder"].endswith("`encoder(x.flatten(0, 1))`")
    # Its calls need one another's results: the recurrence has to be a loop.
    assert "world_model" not in advice
