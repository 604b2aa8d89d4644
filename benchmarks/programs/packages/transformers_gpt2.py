"""A small GPT-2 on generated text that its tokenizer reads in each batch."""

import random

import torch
from lightning.pytorch import Trainer
from packages.supervised import Trained
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast


class Gpt2(GPT2LMHeadModel):
    def forward(self, batch):
        return super().forward(**batch, labels=batch["input_ids"]).loss


def fit(options):
    words = ["".join(random.choices("abcdefgh", k=5)) for _ in range(5000)]
    texts = [" ".join(random.choices(words, k=64)) for _ in range(1600)]
    trained = Tokenizer(models.WordLevel(unk_token="?"))
    trained.pre_tokenizer = pre_tokenizers.Whitespace()
    trained.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=["?", "_"]))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained, unk_token="?", pad_token="_")

    def collate(some):
        return dict(tokenizer(some, return_tensors="pt", truncation=True, max_length=64))

    config = GPT2Config(vocab_size=len(tokenizer), n_positions=64, n_embd=64, n_layer=2, n_head=4)
    loader = torch.utils.data.DataLoader(texts, batch_size=16, shuffle=True, collate_fn=collate)
    Trainer(max_epochs=2, enable_model_summary=False, **options).fit(Trained(Gpt2(config)), loader)
