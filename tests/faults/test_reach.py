"""Which functions the damaged calls reach, and why the others are left out."""

from __future__ import annotations

import ast
import inspect
import re

from tests.faults.valid import CALLS
from tests.helpers import ROOT

# What promises a ValueError and is not called with damaged arguments, by the reason.
LEFT_OUT = {
    "the checks themselves, which the calls go through, and decorators": {
        *("checks: flag flags instance integer real simplex span workers",),
        *("checks: array choice generator indices integers labels values", "config: settings"),
        "osafl.devices: checked_choices",
    },
    "files and downloads, which tests/faults/test_corruption.py and tests/data damage": {
        *("data.downloads: fetch read_cifar read_idx", "data.natural: load parse_roles read_leaf"),
        *("data.tables: read", "npzfiles: read_npz", "fats.state: load refuse_stale save"),
        *("datastreams.own_data: chosen config_for federation run split table_of",),
        *("results.store: config_dict describe experiment_name key_of own_code plain publish",),
        *("results.store: registered_code write_result", "results.sources: identity"),
        *("judging.tables: paper_curve paper_values provenance record", "models.pretrained: load"),
    },
    "what a user brings or declares: protocols, registries, claims, with tests of their own": {
        *("beyond.claims: Question", "registry: Registry Rule", "judging.claims: Claim Claims"),
        "judging.errata: CounterExample Reading picture",
        *("federated.own: build_model build_server check_not_shared maker",),
        *("sfl.protocol: build_caches build_stream", "teaching.exercise: Form"),
        *("datastreams.arms: build_model build_servers",),
    },
    "parts of a run or of a page, called by it alone with what a checked config says": {
        *(
            "app.front_picture: draw",
            "app.overview: Filter",
            "app.readme: bench refresh_block write_blocks",
            "app.verdict_page: verdict_page",
        ),
        *("datastreams.arms: Arms", "datastreams.constants: estimate_constants estimate_sigma0"),
        *("datastreams.arrivals: memories", "datastreams.strategies: ours"),
        *("datastreams.importance: checked_clients", "datastreams.plane_problem: draw measure"),
        *("fats.baselines: present_clients", "fats.enumeration: outcomes"),
        *("fats.forgetting: client_targets request_list sample_targets",),
        *("fats.history: client_sizes draw_batches pair", "fats.membership: shadow_attack split"),
        *("fats.recovery: paths_of", "fats.tasks: make_task"),
        *("fats.training: choose_requests federation_of", "fats.attacks: shadow_attack"),
        *("federated.arrays: finite_vector rows_of tensor_of", "federated.batches: convert"),
        *("machine: cores thread_bound", "judging.tables: judge", "sfl.protocol: contents"),
        *("osafl.centralised: arrivals draw_clients", "osafl.clients: Samples"),
        *("osafl.tuning: collect", "sfl.clients: Clients", "sfl.learner: Learner"),
        *("sfl.clients: stream_of", "teaching.cells: put"),
    },
    "called, by the name that `models.create` knows it under": {
        *("models.images: cnn lenet mobilenetv2 vgg16", "models.side_features: fcn lstm"),
        *("models.tabular: mlp", "models.text: char_mlp char_rnn"),
    },
    "not called: models that tests/models makes, with right arguments": {
        "models.side_features: cnn squeezenet1",
    },
    "not called: runs of a config, which take no other numbers; the configs are called": {
        *("beyond.costs: run", "datastreams.training: run", "fats.membership: run"),
        *("fats.training: run", "osafl.centralised: run", "osafl.training: run"),
        "sfl.training: run",
    },
    "not called: records that the calls get from the functions that make them": {
        *("data.federations: Federation", "osafl.video: Catalogue Users"),
    },
    "evidence, plans and pictures of the notebooks, whose parameters the gate checks": {
        *("figures: curves save_figure",),
    },
}
NOTEBOOKS = re.compile(r"^(?!results).*(\b|_)(evidence|plans|pictures)\b")


def reached():
    """Return module and name of each function and class of sflkit that the damaged calls call.

    A method stands for its class, and a call of our own for what it names.
    """
    found = set()
    for make in CALLS.values():
        function = make()[0]
        if inspect.isfunction(function) and function.__module__.startswith("tests."):
            known, names = function.__globals__, function.__code__.co_names
            owners = [known[name] for name in names if name in known]
            named = [getattr(owner, name, None) for owner in owners for name in names]
            called = [*owners, *named]
        else:
            called = [function if hasattr(function, "__qualname__") else type(function)]
        for one in called:
            if hasattr(one, "__qualname__"):
                module = (one.__module__ or "").removeprefix("sflkit.").removeprefix("companion.")
                found.add((module, one.__qualname__.split(".")[0]))
    return found


def promising():
    """Yield module and name of what promises a ValueError or TypeError; whether it is called."""
    called = reached()
    files = [file for name in ("sflkit", "companion") for file in (ROOT / name).rglob("*.py")]
    for file in sorted(files):
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts[1:])
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name[0] == "_":
                continue
            said = ast.get_docstring(node) or ""
            if re.search(r"[Rr]aises", said) and re.search("ValueError|TypeError", said):
                module = module.removesuffix(".__init__")
                yield module, node.name, (module, node.name) in called


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
    assert sum(called for _, _, called in found) >= 170
