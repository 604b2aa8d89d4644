"""Questions of customers, sorted by their subject; most are short.

Reported in huggingface/transformers issue 4842, "Benchmark: add optimization notebook": dynamic
padding takes 4.7 times less time than padding to 512.

cause: every batch is padded to the longest length allowed, 192, though its longest question has
    some 70 words: most of what the encoder computes is padding
right: says that most of a batch is padding (or that shapes could be shorter, at a marked line); the
    change is to pad to the longest of the batch, or to sort by length
"""

import torch
from case import Module, Run
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

STEPS, QUESTIONS, LIMIT, WORDS, SUBJECTS, WIDTH = 60, 960, 192, 3000, 9, 96


def padded(samples):
    questions, subjects = zip(*samples, strict=True)
    return pad_sequence(questions, batch_first=True), torch.tensor(subjects)


def padded_to_limit(samples):
    questions, subjects = padded(samples)
    return nn.functional.pad(questions, (0, LIMIT - questions.shape[1])), subjects  # cause


class Questions(Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        block = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, SUBJECTS)

    def loss(self, batch):
        questions, subjects = batch
        read = self.encoder(self.words(questions), src_key_padding_mask=questions == 0)
        return nn.functional.cross_entropy(self.head(read[:, 0]), subjects)


def main(run: Run) -> None:
    lengths = torch.empty(QUESTIONS).log_normal_(3.0, 0.7).clamp(3, LIMIT).long().tolist()
    questions = [torch.randint(1, WORDS, (length,)) for length in lengths]
    data = list(zip(questions, torch.randint(SUBJECTS, (QUESTIONS,)).tolist(), strict=True))
    collate = padded if run.fixed else padded_to_limit  # cause
    run.fit(Questions(), DataLoader(data, batch_size=16, shuffle=True, collate_fn=collate))
