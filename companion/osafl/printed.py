"""The rules of OSAFL's Tables II to V by the paper's names, and what Section V-B says of them."""

from __future__ import annotations

from companion.judging.tables import paper_value

# The labels of `rules.RULES`, which loads torch.
LABELS = {
    "osafl": "OSAFL",
    "m_fedavg": "M-FedAvg",
    "m_afa_cd": "M-AFA-CD",
    "m_fednova": "M-FedNova",
    "m_fedprox": "M-FedProx",
    "m_feddisco": "M-FedDisco",
}
BASELINES = tuple(LABELS)[1:]
# The rounds after which Section V-B.1 names accuracies at K = 1.
CHECKPOINT_ROUND = {"CNN": 5, "SqueezeNet1": 30}


def at_checkpoint(network: str) -> dict[str, float]:
    """Return the accuracies that Section V-B.1 names for a network at K = 1, shares by rule."""
    where = f"accuracy at round {CHECKPOINT_ROUND[network]} {network}"
    return {
        rule: paper_value("osafl", "osafl-fig4", f"{where} {name}") for rule, name in LABELS.items()
    }


def at_round_40(K: int) -> dict[str, float]:
    """Return the accuracies on Dataset-2 after 40 rounds, Section V-B.2, shares by rule."""
    return {
        rule: paper_value("osafl", "osafl-fig6", f"accuracy at round 40 K = {K} {name}")
        for rule, name in LABELS.items()
    }
