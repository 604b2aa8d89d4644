"""Persons, places and firms in news: a bidirectional LSTM with a conditional random field on top.

report: ZubinGou/NER-BiLSTM-CRF-PyTorch issue 1 (in Chinese: "the loss still takes a single input. Won't
    training be very slow?"; the answer: "with several at once it should be much faster"), also
    IBM/pytorch-seq2seq issue 34, "Faster loss functions"
cause: the field's score is worked out sentence by sentence, and word by word in each: hundreds of
    operations on a dozen numbers, and as many in backward
right: the loss (its loop over the sentences, a marked line) takes most of a step in very many tiny
    operations, in forward and in backward; the change is to go through the words of all sentences
    of the batch at once, with a mask for the shorter ones. Not the LSTM, not loading
The mended form has the same loss, up to rounding.
"""

import torch
from case import Module, Run, whole_batches
from torch import nn

STEPS, SENTENCES, WORDS, LENGTH, TAGS, WIDTH = 240, 2000, 4000, 24, 9, 96


class Names(Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed = fixed
        self.words = nn.Embedding(WORDS, 64)
        self.rnn = nn.LSTM(64, WIDTH, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * WIDTH, TAGS)
        self.moves = nn.Parameter(0.1 * torch.randn(TAGS, TAGS))

    def sentence(self, scores, tags):
        """How unlikely the tags of one sentence are."""
        right = scores[0, tags[0]]
        total = scores[0]
        for word in range(1, len(tags)):  # cause
            move = self.moves[tags[word - 1], tags[word]]  # cause
            right = right + move + scores[word, tags[word]]  # cause
            total = (total[:, None] + self.moves).logsumexp(0) + scores[word]  # cause
        return total.logsumexp(0) - right

    def sentences(self, scores, tags, lengths):
        there = torch.arange(LENGTH) < lengths[:, None]
        right = (scores.gather(2, tags[..., None])[..., 0] * there).sum(1)
        right = right + (self.moves[tags[:, :-1], tags[:, 1:]] * there[:, 1:]).sum(1)
        total = scores[:, 0]
        for word in range(1, LENGTH):
            after = (total[:, :, None] + self.moves).logsumexp(1) + scores[:, word]
            total = torch.where(there[:, word, None], after, total)
        return total.logsumexp(1) - right

    def loss(self, batch):
        words, tags, lengths = batch
        scores = self.head(self.rnn(self.words(words))[0])
        if self.fixed:
            return self.sentences(scores, tags, lengths).mean()
        each = zip(scores, tags, lengths.tolist(), strict=True)
        return torch.stack([self.sentence(s[:n], t[:n]) for s, t, n in each]).mean()  # cause


def main(run: Run) -> None:
    words = torch.randint(WORDS, (SENTENCES, LENGTH))
    tags, lengths = torch.randint(TAGS, words.shape), torch.randint(8, LENGTH + 1, (SENTENCES,))
    run.fit(Names(run.fixed), whole_batches([words, tags, lengths], 8))
