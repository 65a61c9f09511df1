"""Next-character prediction: the recurrent network for Shakespeare, and a cheaper one without
recurrence.

The data-streams paper (FDS: Federated Learning for Data Streams, Tables 1 and 3, Appendix D.1.4)
and FATS (Section 6.1.2) train the recurrent one. Both follow LEAF (Caldas et al. 2018). The other
one is the neural probabilistic language model of Bengio et al. (2003), which sees a fixed number of
last characters. It trains in a fraction of the time.

| code       | symbol | shape       | meaning                                                  |
|------------|--------|-------------|----------------------------------------------------------|
| tokens     | x      | (n, length) | int64 character indices in [0, vocabulary); length is 80 |
| vocabulary |        | ()          | number of character indices                              |
| hidden     |        | ()          | units of each recurrent layer                            |
| logits     |        | (n, C)      | scores of the character that follows each row            |
"""

from __future__ import annotations

from torch import Tensor, nn

from sflkit import checks

CELLS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


def char_rnn(
    input_shape: tuple[int, ...],
    n_classes: int,
    vocabulary: int = 100,
    embedding: int = 8,
    hidden: int = 256,
    layers: int = 2,
    cell: str = "rnn",
) -> nn.Module:
    """Return an embedding, stacked recurrent layers and a dense layer on the last one's output.

    The defaults are FDS, Appendix D.1.4: 226 180 parameters with 100 characters and 100 classes,
    which is Table 3's number. FATS (Section 6.1.2) and LEAF have cell="lstm", vocabulary=80 and 80
    classes: 819 920 parameters. FATS scores "against all items of the vocabulary via a dot
    product": that is the dense layer's weight matrix. The bias is LEAF's.

    Parameters
    ----------
    input_shape : (int,)
        (length,), the length of the sequences. The network itself takes any length.
    n_classes : int
        Number of characters to choose from, usually `vocabulary`.
    vocabulary : int
        Number of character indices, >= 1.
    embedding, hidden, layers : int
        Width of the embedding, units of a recurrent layer, and number of these, each >= 1.
    cell : "rnn", "lstm" or "gru"
        "rnn" is Elman's with tanh.

    Returns
    -------
    CharRNN
        int64 (n, length) -> logits (n, n_classes).

    Raises
    ------
    ValueError
        If the shape has more than one axis or another argument is out of range.
    """
    # ERRATA 60: Table 1 names a "stacked-LSTM", which would have 825 220 parameters; Table 3's d
    # and D.1.4's text are an RNN's.
    _one_axis(input_shape)
    widths = {"vocabulary": vocabulary, "embedding": embedding, "hidden": hidden, "layers": layers}
    return CharRNN(
        n_classes,
        **{name: checks.integer(name, n, 1) for name, n in widths.items()},
        cell=checks.choice("cell", cell, CELLS),
    )


def char_mlp(
    input_shape: tuple[int, ...],
    n_classes: int,
    vocabulary: int = 100,
    embedding: int = 8,
    context: int = 8,
    hidden: int = 128,
) -> nn.Module:
    """Return an embedding of the last characters, one dense layer with ReLU, and a dense output.

    Source: Bengio, Ducharme, Vincent and Jauvin (2003), "A neural probabilistic language model",
    without its direct connections, on characters in place of words and with ReLU in place of tanh.
    The defaults have 22 020 parameters with 100 characters and 100 classes.

    Parameters
    ----------
    input_shape : (int,)
        (length,), the length of the sequences, at least `context`. The network itself takes any
        such length.
    n_classes : int
        Number of characters to choose from, usually `vocabulary`.
    vocabulary : int
        Number of character indices, >= 1.
    embedding, context, hidden : int
        Width of the embedding, last characters that are looked at, and units, each >= 1.

    Returns
    -------
    CharMLP
        int64 (n, length) -> logits (n, n_classes).

    Raises
    ------
    ValueError
        If the shape has more than one axis, a sequence is shorter than `context`, or another
        argument is out of range.
    """
    _one_axis(input_shape)
    widths = {"vocabulary": vocabulary, "embedding": embedding, "hidden": hidden}
    return CharMLP(
        n_classes,
        **{name: checks.integer(name, n, 1) for name, n in widths.items()},
        context=checks.integer("context", context, 1, input_shape[0]),
    )


def _one_axis(input_shape: tuple[int, ...]) -> None:
    if len(input_shape) != 1:
        raise ValueError(
            f"input_shape={input_shape!r} must be (length,): one row of character indices"
        )


def _in_vocabulary(tokens: Tensor, n: int) -> None:
    """Refuse tokens that are no index below n, which would end a process's use of a GPU."""
    if tokens.is_floating_point():
        raise ValueError(f"tokens of dtype {tokens.dtype} must be integers (int64) in [0, {n - 1}]")
    low, high = tokens.aminmax()
    if low < 0 or high >= n:
        bad = int(low if low < 0 else high)
        raise ValueError(f"token {bad} is out of range; tokens must lie in [0, {n - 1}]")


class CharRNN(nn.Module):
    """The network that `char_rnn` returns after it has checked the arguments."""

    def __init__(
        self, n_classes: int, vocabulary: int, embedding: int, hidden: int, layers: int, cell: str
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.recurrent = CELLS[cell](embedding, hidden, layers, batch_first=True)
        self.output = nn.Linear(hidden, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits (n, n_classes) of tokens (n, length).

        Raises
        ------
        ValueError
            If a token is no index into the vocabulary.
        """
        _in_vocabulary(tokens, self.embedding.num_embeddings)
        states, _ = self.recurrent(self.embedding(tokens))
        return self.output(states[:, -1])


class CharMLP(nn.Module):
    """The network that `char_mlp` returns after it has checked the arguments."""

    def __init__(self, n_classes: int, vocabulary: int, embedding: int, context: int, hidden: int):
        super().__init__()
        self.context = context
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.hidden = nn.Linear(context * embedding, hidden)
        self.output = nn.Linear(hidden, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits (n, n_classes) of tokens (n, length).

        Raises
        ------
        ValueError
            If a token is no index into the vocabulary.
        """
        _in_vocabulary(tokens, self.embedding.num_embeddings)
        last = self.embedding(tokens[:, -self.context :]).flatten(1)
        return self.output(self.hidden(last).relu())
