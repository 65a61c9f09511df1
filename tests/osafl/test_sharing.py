"""Which private quantities a server needs, against what the printed formulas name."""

from companion.notebooks.rules_by_hand import private_needs


def test_needs_are_those_of_the_printed_formulas():
    # Algorithm 8 weighs d_u by D_u kappa_u; (83) has D_u and the labels; Algorithms 2, 6, 7 and 9
    # have 1 / U and nothing of a client beside what it sent. FedNova: p_u and the sum of p kappa.
    table = private_needs(
        ["osafl", "m_fedavg", "m_fedprox", "m_afa_cd", "m_fednova", "m_feddisco", "fednova"]
    )
    for rule in ("osafl", "m_fedavg", "m_fedprox", "m_afa_cd"):
        assert not table.loc[rule].any()
    assert table.loc["m_fednova"].to_dict() == {"sizes": True, "steps": True, "labels": False}
    assert table.loc["m_feddisco"].to_dict() == {"sizes": True, "steps": False, "labels": True}
    assert table.loc["fednova"].to_dict() == {"sizes": True, "steps": True, "labels": False}
