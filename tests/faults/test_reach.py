"""Which functions the damaged calls reach, and why the others are left out."""

from __future__ import annotations

import ast
import re

from tests.helpers import ROOT

# What promises a ValueError and is not called with damaged arguments, by the reason.
LEFT_OUT = {
    "the checks themselves, which the calls go through, and decorators": {
        *("checks: flag flags instance integer overflow_named real simplex span workers",),
        *("checks: indices", "config: settings", "osafl.devices: checked_choices"),
    },
    "files and downloads, which tests/faults/test_corruption.py and tests/data damage": {
        *("data.downloads: fetch read_cifar read_idx", "data.natural: parse_roles read_leaf"),
        *("data.tables: read", "npzfiles: read_npz", "fats.state: refuse_stale save"),
        *("datastreams.own_data: chosen config_for split table_of",),
        *("results.store: config_dict describe experiment_name key_of own_code plain publish",),
        *("results.store: registered_code write_result", "results.sources: identity"),
        *("results.tables: provenance record",),
    },
    "what a user brings or declares: protocols, registries, claims, with tests of their own": {
        *("beyond.claims: Question", "registry: Registry Rule", "results.claims: Claim Claims"),
        *("results.errata: CounterExample Reading picture", "results.plans: carry_out next_stage"),
        *(
            "federated.own: build_model build_server check_not_shared maker",
            "results.sweep: attempt",
        ),
        *("sfl.protocol: build_caches build_stream", "teaching.exercise: Form"),
        *("datastreams.arms: build_model build_servers",),
    },
    "parts of a run or of a page, called by it alone with what a checked config says": {
        *("app.overview: Filter", "app.readme: bench refresh_block write_blocks"),
        *("datastreams.arms: Arms", "datastreams.constants: estimate_constants estimate_sigma0"),
        *("datastreams.importance: checked_clients", "datastreams.plane_problem: measure"),
        *("fats.baselines: present_clients", "fats.enumeration: outcomes"),
        *("fats.forgetting: client_targets request_list sample_targets",),
        *("fats.history: client_sizes draw_batches pair", "fats.membership: shadow_attack split"),
        *("fats.recovery: paths_of", "fats.tasks: make_task"),
        *("fats.training: choose_requests federation_of", "fats.attacks: shadow_attack"),
        *("federated.arrays: finite_vector rows_of tensor_of", "federated.batches: convert"),
        *("machine: cores thread_bound", "models.side_features: squeezenet1"),
        *("osafl.centralised: arrivals draw_clients", "osafl.clients: Samples"),
        *("osafl.tuning: collect", "sfl.clients: Clients", "sfl.learner: Learner"),
        *("sfl.training: run_stacked", "teaching.cells: put"),
    },
    "called, by the name that `models.create` knows it under": {
        *("models.side_features: fcn lstm",),
    },
    "evidence, plans and pictures of the notebooks, whose parameters the gate checks": {
        *("results.figures: curves save_figure",),
    },
}
NOTEBOOKS = re.compile(r"^(?!results).*(\b|_)(evidence|plans|pictures)\b")


def promising():
    """Yield module and name of what promises a ValueError or TypeError; whether it is called."""
    called = "\n".join(
        file.read_text() for file in (ROOT / "tests" / "faults" / "valid").glob("*.py")
    )
    for file in sorted((ROOT / "sflkit").rglob("*.py")):
        module = ".".join(file.relative_to(ROOT / "sflkit").with_suffix("").parts)
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name[0] == "_":
                continue
            said = ast.get_docstring(node) or ""
            if re.search(r"[Rr]aises", said) and re.search("ValueError|TypeError", said):
                yield module, node.name, bool(re.search(rf"\b{node.name}\b", called))


def test_all_that_promises_an_error_is_called_or_left_out_for_a_reason():
    left = {
        (module, name)
        for lines in LEFT_OUT.values()
        for module, names in (line.split(": ") for line in lines)
        for name in names.split()
    }
    found = list(promising())
    missed = {(module, name) for module, name, called in found if not called}
    missed = {(m, name) for m, name in missed if not NOTEBOOKS.search(m)}
    assert not missed ^ left
    assert sum(called for _, _, called in found) >= 200
